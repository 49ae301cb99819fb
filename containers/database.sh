#!/bin/sh
# Makes the hub's role and database in a new PostgreSQL. The role owns one database and is no superuser.
set -eu
psql -v ON_ERROR_STOP=1 -v password="$HUB_PASSWORD" -U "${POSTGRES_USER:-postgres}" -d postgres <<'SQL'
CREATE ROLE engram_hub LOGIN NOSUPERUSER CREATEROLE PASSWORD :'password';
CREATE DATABASE engram_hub OWNER engram_hub;
REVOKE ALL ON DATABASE engram_hub FROM PUBLIC;
SQL
