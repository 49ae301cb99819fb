"""Kinds of secrets and look-alikes that earlier rules got wrong, with other members of the same classes."""

from __future__ import annotations

import pytest

from engram.redaction import redact

#: Text and the secret in it.
SECRETS = [
    ("jdbc:oracle:thin:scott/tiger7Qx@//db.acme.io:1521/PROD", "tiger7Qx"),
    ("url = jdbc:oracle:thin:app_user/Wint3rSun@db1:1521:ORCL", "Wint3rSun"),
    ('jdbc:oracle:thin:hr/"pa55Word"@dbhost:1521/x', "pa55Word"),
    ("sqlplus system/manager12@//host:1521/XE", "manager12"),
    ("jdbc:sqlserver://h:1433;databaseName=x;user=sa;password=Hund77", "Hund77"),
    ("jdbc:mysql://h/db?user=root&password=blue42", "blue42"),
    ("DB_PWD=k7f2", "k7f2"),
    ("export SAP_PWD=ab12", "ab12"),
    ("MYSQL_PWD=fox9", "fox9"),
    ("REDIS_PWD='zq81'", "zq81"),
    ("ORACLE_PWD: m3n4", "m3n4"),
    ("LDAP_BIND_PWD=tr33", "tr33"),
    ("FTP_PASS=ax7q", "ax7q"),
    ("DB_PWD=apple", "apple"),
    ("SMTP_PWD=1234", "1234"),
    ("ssh-keygen -t ed25519 -N hunter22 -f k", "hunter22"),
    ("ssh-keygen -t ed25519 -f id -N 'correct horse'", "correct horse"),
    ("ssh-keygen -p -P oldpass -N newpass -f k", "newpass"),
    ("ssh-keygen -p -P oldpass -N newpass -f k", "oldpass"),
    ("bcp db.dbo.t out f.dat -c -S srv -U sa -P Winter", "Winter"),
    ("bcp db.dbo.t out f.dat -c -S srv -U sa -PWinter9", "Winter9"),
    ("sqlcmd -S srv -U sa -P Summer -Q 'select 1'", "Summer"),
    ('sqlcmd -S srv -U sa -P "My Pass 1"', "My Pass 1"),
    ("keyring.set_password('svc','bob','blue42x')", "blue42x"),
    ('keyring.set_password("acme", user, "winterling")', "winterling"),
    ("await keytar.setPassword('svc', 'acct', 'flower9')", "flower9"),
    ("keyring set svc bob <<< 'flower9'", "flower9"),
    ("security add-generic-password -a bob -s svc -w flower9", "flower9"),
    ("secret-tool: cmdkey /add:srv /user:bob /pass:flower9", "flower9"),
    ("password (prod): hunter2", "hunter2"),
    ("password (staging): blue42", "blue42"),
    ("Passwort (prod) = hunter22", "hunter22"),
    ("the password (for root) is hunter2x", "hunter2x"),
    ("pwd [prod]: hunter2", "hunter2"),
    ("API key (prod): 9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706"),
    (
        "1. abandon 2. ability 3. able 4. about 5. above 6. absent 7. absorb 8. abstract 9. absurd 10. abuse 11. "
        "access 12. accident",
        "accident",
    ),
    (
        "my wallet:\n1. abandon\n2. ability\n3. able\n4. about\n5. above\n6. absent\n7. absorb\n8. abstract\n9. "
        "absurd\n10. abuse\n11. access\n12. accident\n",
        "abstract",
    ),
    (
        "1) zebra 2) ability 3) able 4) about 5) above 6) absent 7) absorb 8) abstract 9) absurd 10) abuse 11) "
        "access 12) accident",
        "zebra",
    ),
    (
        "1 abandon 2 ability 3 able 4 about 5 above 6 absent 7 absorb 8 abstract 9 absurd 10 abuse 11 access 12 "
        "accident",
        "abstract",
    ),
    (
        "seed phrase:\n1. abandon\n2. ability\n3. able\n4. about\n5. above\n6. absent\n7. absorb\n8. abstract\n9. "
        "absurd\n10. abuse\n11. access\n12. accident",
        "accident",
    ),
    ("isql -U sa -P Summer -S srv", "Summer"),
    ("tsql -H h -U sa -P Summer", "Summer"),
    ("osql -U sa -P Summer", "Summer"),
    ("psexec \\\\srv -u bob -p Summer cmd", "Summer"),
    ("expdp system/manager12@orcl dumpfile=x", "manager12"),
    ("rman target sys/Oracle19@prod", "Oracle19"),
    ("sqlldr scott/tiger9 control=x.ctl", "tiger9"),
    ("mongo -u root -p flower9", "flower9"),
    ("7z a -pflower9 x.7z", "flower9"),
    ("zip -P flower9 a.zip f", "flower9"),
    ("openssl rsa -passin pass:flower9", "flower9"),
    ("keytool -storepass flower9 -keypass flower8", "flower9"),
    ("smbclient //s/x -U bob%flower9", "flower9"),
    ("wget --password=flower9 http://x", "flower9"),
    ("lftp -u bob,flower9 ftp.x", "flower9"),
    ("ansible-vault --vault-password flower9", "flower9"),
    ("mysqladmin -u root password 'flower9'", "flower9"),
    ("gpg --batch --passphrase flower9 -c f", "flower9"),
    ("signtool sign /f a.pfx /p flower9 a.exe", "flower9"),
    ("certutil -p flower9 -importpfx a.pfx", "flower9"),
    ("pkcs12 -export -passout pass:flower9", "flower9"),
    ("ipmitool -U ADMIN -P flower chassis status", "flower"),
    ("curl -u bob:flower9 x", "flower9"),
    ("cqlsh -u cassandra -p cassandra9", "cassandra9"),
    ("psftp -pw flower9", "flower9"),
    ("aria2c --http-passwd=flower9", "flower9"),
]
#: What only looks like a secret.
LOOK_ALIKES = [
    "vpc-0a1b2c3d4e5f67890 is in us-east-1",
    "ami-0abcdef1234567890 was launched",
    "subnet-0bb1c79de3EXAMPLE",
    "the subnet-0f9e8d7c6b5a43210 and sg-0123456789abcdef0",
    "i-0abc1234def567890 terminated",
    "eni-0a1b2c3d4e5f67890",
    "vol-049df61146c4d7901",
    "snap-066877671789bd71b",
    "rtb-0a1b2c3d4e5f67890",
    "igw-0a1b2c3d4e5f67890",
    "nat-0a1b2c3d4e5f67890",
    "eipalloc-0a1b2c3d4e5f67890",
    "acl-0a1b2c3d4e5f67890",
    "tgw-0262a0e521EXAMPLE1",
    "lt-0a1b2c3d4e5f67890",
    "fs-0a1b2c3d4e5f67890",
    "pcx-0a1b2c3d4e5f67890",
    "vpce-0a1b2c3d4e5f67890",
    "dopt-0a1b2c3d4e5f67890",
    "eipassoc-0a1b2c3d4e5f67890",
    "r-0a1b2c3d4e5f67890",
    '{"VpcId": "vpc-0a1b2c3d4e5f67890"}',
    "key: ami-0abcdef1234567890",
    "_ZN4core3fmt9Formatter9write_str17h0a1b2c3d4e5f6789E",
    "_ZNSt6vectorIiSaIiEE9push_backERKi",
    "undefined reference to `_ZN5boost6system15system_categoryEv'",
    "_RNvCs1234_7mycrate3foo",
    "_RNvMsr_NtCs3ssYzQotkvD_3std4pathNtB5_7PathBuf3newCs15kBYyAo9fc_7mycrate",
    "?push_back@?$vector@HV?$allocator@H@std@@@std@@QEAAX$$QEAH@Z",
    "$s4main3fooyyF",
    "_ZN3foo17h05af221e174051e9E",
    "_ZNK8MyClass10getTokenV2Ev",
    "core::ptr::drop_in_place::h8a7b6c5d4e3f2a1b",
    "_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..Drop$GT$::drop::h1a2b3c4d5e6f7a8b",
    "_D3std5stdio7writelnFAyaZv",
    "password=<your password>",
    "DB_PASSWORD=REPLACE_ME",
    "api_key=INSERT_KEY_HERE",
    "token: 'my-token-here'",
    "SECRET_KEY=change-me-in-production",
    "API_KEY=sk-xxxxxxxxxxxxxxxxxxxx",
    "password: ********",
    "PASSWORD=${DB_PASSWORD:-postgres}",
    "sk_test_XXXXXXXXXXXXXXXXXXXXXXXX",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "DB_PWD=secret",
    "DB_PWD=password",
    "DB_PWD=$PWD",
    "OLD_PWD=/home",
    "CWD_PWD=/x/y",
    "password (min 8 characters): required",
    "password (optional): string",
    "Password (again):",
    "token (string): the token to use",
    "API_KEY=00000000000000000000000000000000",
    "SECRET=0123456789abcdef0123456789abcdef",
    "TOKEN=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "postgres://user:pass@host/db",
    "postgres://USER:PASSWORD@HOST/db",
    "jdbc:oracle:thin:@//db:1521/x",
    "jdbc:oracle:thin:user/password@host:1521:sid",
    "keyring.set_password(service, user, password)",
    "keyring.get_password('svc','bob')",
    "ssh-keygen -t rsa -N '' -f k",
    'ssh-keygen -N "" -P ""',
    "sqlcmd -S srv -U sa -P $SA_PASSWORD",
    "bcp t out f -U sa -P <password>",
    "sqlcmd -S srv -E -i file.sql -P",
    "keyring.set_password('svc', 'bob', getpass())",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH3kYzq9vJ8s2x1Q4mT7nB5cD6eF8gH9iJ0kL1mN2oPq bob@host",
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7vbqajDRe9x1Qk2pL8sVwXyZ1A2bC3dE4fG5hI6jK7lM8nO9pQ0rS1tU2vW3x user@x",
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNu"
    "G5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=",
    "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAu1SU1LfVLPHCozMxH2Mo\n4lgOEePzNm0tRgeLez"
    "V6ffAt0gunVTLw7onLRnrq0/IzW7yWR7QkrmBL7jTKEn5u\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\nRTESMBAGA1UEChMJQ"
    "mFsdGltb3JlMRMwEQYDVQQLEwpDeWJlclRydXN0MSIwIAYD\n-----END CERTIFICATE-----",
    "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p",
    "publicKey: 'pk_live_51H8xYzAbCdEfGhIjKlMnOp'",
    "untrusted comment: minisign public key\nRWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3",
    "wg public key: HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=",
    "PublicKey = HIgo9xNzJMWLKASShiTqIybxZ0U3wGLiUeJ1PKf8ykw=",
    "VAPID_PUBLIC_KEY=BEl62iUYgUivxIkv69yViEuiBIa-Ib9-SkvMeAtA3LFgDzkrxZJjSgSnfckjBJuBkr3qBUYIHBQFLXYp5Nksh8U",
    "untrusted: SHA256:p2QAMXNIC1TJYWeIOttrVc98/R1BUFWu3/LiyKgUfQM",
    "1. install 2. build 3. test",
    "1. first\n2. second\n3. third\n4. fourth\n5. fifth\n6. sixth\n7. seven\n8. eighth\n9. ninth\n10. tenth",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_the_secret_goes_and_masking_twice_changes_nothing(text: str, secret: str) -> None:
    masked = redact(f"I ran this:\n{text}\nand it worked.")

    assert secret not in masked
    assert redact(masked) == masked


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_a_look_alike_stays(text: str) -> None:
    assert redact(text) == text
