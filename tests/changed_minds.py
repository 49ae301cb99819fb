"""Written pairs: an old decision, the new one that replaces it, and a question; and pairs that must both stay."""

from __future__ import annotations

#: (what was decided first, what replaced it, what somebody asks later)
CHANGED = [
    (
        "We use Redis for the job queue.",
        "We moved the job queue from Redis to Postgres LISTEN/NOTIFY.",
        "What holds the job queue?",
    ),
    (
        "Sessions expire after 30 minutes.",
        "Sessions now expire after 12 hours; 30 minutes annoyed users.",
        "When do sessions expire?",
    ),
    (
        "Decided to use npm for the frontend.",
        "Switched the frontend from npm to pnpm for the workspace support.",
        "Which package manager does the frontend use?",
    ),
    (
        "Always squash commits before merging.",
        "Never squash commits before merging; the history is needed for bisect.",
        "Should I squash before merging?",
    ),
    (
        "The API server listens on port 8080.",
        "The API server listens on port 9000, since 8080 collides with the proxy.",
        "Which port does the API server listen on?",
    ),
    (
        "Errors are returned as exceptions from the parser.",
        "The parser returns Result values instead of exceptions.",
        "How does the parser report errors?",
    ),
    ("We format Python with black.", "We replaced black with ruff format for Python.", "What formats our Python code?"),
    (
        "The nightly build runs at 02:00 UTC.",
        "The nightly build runs at 05:30 UTC now.",
        "When does the nightly build run?",
    ),
    (
        "Feature flags live in a YAML file in the repository.",
        "Feature flags are no longer in the YAML file; they come from the LaunchDarkly service.",
        "Where do feature flags live?",
    ),
    (
        "Use moment.js for date handling.",
        "Dropped moment.js; dates are handled with date-fns.",
        "Which library do we use for dates?",
    ),
    (
        "Images are stored in the database as blobs.",
        "Images moved from database blobs to S3 with signed links.",
        "Where are images stored?",
    ),
    (
        "Retry failed webhooks three times.",
        "Retry failed webhooks eight times with exponential back-off.",
        "How often are failed webhooks retried?",
    ),
    (
        "The cache key is the user id.",
        "The cache key is tenant id plus user id; the user id alone leaked across tenants.",
        "What is the cache key?",
    ),
    (
        "Deploy by hand with the deploy.sh script.",
        "We no longer deploy by hand with deploy.sh; GitHub Actions deploys each tag.",
        "How do we deploy?",
    ),
    (
        "Tests use the shared staging database.",
        "Tests use a throwaway SQLite database instead of the shared staging database.",
        "Which database do the tests use?",
    ),
    (
        "I prefer tabs in Go and JavaScript files.",
        "From now on two spaces in JavaScript files, no more tabs there.",
        "Tabs or spaces in JavaScript?",
    ),
    (
        "The mobile client talks GraphQL to the backend.",
        "The mobile client went back from GraphQL to plain REST endpoints.",
        "How does the mobile client talk to the backend?",
    ),
    (
        "Log level in production is DEBUG.",
        "Lowered the log level in production to WARNING because of cost.",
        "What is the log level in production?",
    ),
    (
        "Rate limit is 100 requests per minute per key.",
        "Raised the rate limit to 600 requests per minute per key.",
        "What is the rate limit per key?",
    ),
    (
        "We vendor third-party protobuf files.",
        "Stopped vendoring protobuf files; they are fetched by buf from the registry.",
        "Do we vendor protobuf files?",
    ),
    (
        "Migrations are written with Alembic.",
        "Abandoned Alembic: migrations are plain numbered SQL files.",
        "How are migrations written?",
    ),
    (
        "The default branch is called master.",
        "The default branch was renamed from master to main.",
        "What is the default branch called?",
    ),
    (
        "User passwords are hashed with bcrypt.",
        "User passwords are hashed with argon2id; bcrypt is only checked for old accounts, replaced at login.",
        "How are passwords hashed?",
    ),
    ("Backups are kept for 7 days.", "Backups are kept for 35 days after the audit.", "How long are backups kept?"),
    ("Use Jest for unit tests.", "Unit tests run with Vitest rather than Jest.", "What runs the unit tests?"),
    (
        "The settings page is rendered on the server.",
        "The settings page is no longer rendered on the server; it became a client component.",
        "Where is the settings page rendered?",
    ),
    (
        "Search is powered by Elasticsearch.",
        "Elasticsearch was removed; search uses Postgres full text.",
        "What powers search?",
    ),
    (
        "The worker pool has 4 threads.",
        "The worker pool has 16 threads after the load test.",
        "How many threads has the worker pool?",
    ),
    (
        "Config is read from environment variables only.",
        "Config is read from a TOML file first and not only from environment variables.",
        "Where is config read from?",
    ),
    (
        "Commit messages follow Conventional Commits.",
        "Reverted Conventional Commits: commit messages are plain sentences saying why.",
        "What form do commit messages have?",
    ),
    ("Metrics go to Datadog.", "Migrated metrics from Datadog to Prometheus and Grafana.", "Where do metrics go?"),
    (
        "Invoices are rounded down to the cent.",
        "Invoices are rounded half-even instead of down, as the accountant asked.",
        "How are invoices rounded?",
    ),
    (
        "Do not use async views in Django.",
        "Use async views in Django for the streaming endpoints now.",
        "May I use async views in Django?",
    ),
    (
        "The CLI prints JSON by default.",
        "The CLI prints tables by default; JSON only with --json instead of always.",
        "What does the CLI print by default?",
    ),
    ("Upload size limit is 10 MB.", "Upload size limit was increased to 50 MB.", "What is the upload size limit?"),
    (
        "Auth tokens are kept in localStorage.",
        "Auth tokens moved away from localStorage into httpOnly cookies.",
        "Where are auth tokens kept?",
    ),
    (
        "We support Python 3.8 and newer.",
        "Dropped Python 3.8: we support 3.11 and newer.",
        "Which Python versions do we support?",
    ),
    ("The event bus is RabbitMQ.", "RabbitMQ was replaced by NATS as the event bus.", "What is the event bus?"),
    (
        "Use the singleton DatabaseManager for connections.",
        "Scrapped the singleton DatabaseManager; connections are passed in explicitly.",
        "How do I get a database connection?",
    ),
    (
        "Release every Friday.",
        "Changed our mind: release on Tuesdays, never on Fridays.",
        "On which day do we release?",
    ),
    (
        "CSS is written with styled-components.",
        "CSS is written with Tailwind; styled-components are deprecated here.",
        "How do we write CSS?",
    ),
    (
        "Timeouts for upstream calls are 5 s.",
        "Timeouts for upstream calls are 20 s.",
        "What is the timeout for upstream calls?",
    ),
    (
        "The monorepo is built with Bazel.",
        "Gave up Bazel; the monorepo is built with Turborepo.",
        "What builds the monorepo?",
    ),
    (
        "Customer e-mails are sent from a cron job.",
        "Customer e-mails are sent by the outbox worker rather than from a cron job.",
        "What sends customer e-mails?",
    ),
]

#: Both hold: the later one is about something else, or adds to the earlier one.
BOTH_STAY = [
    ("We use Redis for the job queue.", "Redis needs maxmemory-policy noeviction for the job queue."),
    ("Sessions expire after 30 minutes.", "Password reset links expire after 2 hours."),
    ("The API server listens on port 8080.", "The metrics endpoint listens on port 9100."),
    ("We format Python with ruff.", "We lint Python with ruff and mypy."),
    ("Always write a test first.", "Always run the linter before committing."),
    ("Never force-push to main.", "Never commit secrets to the repository."),
    ("The frontend uses pnpm.", "The backend uses poetry."),
    ("Images are stored in S3.", "Videos are stored in S3 too, in another bucket."),
    ("Retry failed webhooks three times.", "Log each failed webhook with its response body."),
    ("Deploys run from GitHub Actions.", "Removed the unused import in deploy.py."),
    ("The nightly build runs at 02:00 UTC.", "The weekly report runs on Mondays at 06:00 UTC."),
    ("I prefer short functions.", "I prefer explicit names over short ones."),
    ("Search uses Postgres full text.", "Postgres needs the pg_trgm extension for fuzzy search."),
    ("The parser returns Result values.", "The lexer keeps the position of each token."),
    ("Backups are kept for 35 days.", "Backups are encrypted with age."),
    ("Use Vitest for unit tests.", "Use Playwright for end-to-end tests."),
    ("Auth tokens are kept in httpOnly cookies.", "Fixed the login redirect that dropped the query string."),
    ("The default branch is main.", "Release branches are cut from main and named release/x.y."),
    ("Migrations are plain SQL files.", "Migration 014 adds an index on orders.created_at."),
    ("Feature flags come from LaunchDarkly.", "The new_checkout feature flag is on for 10 % of users."),
]
