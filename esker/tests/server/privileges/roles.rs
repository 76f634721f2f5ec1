//! Roles, partial revokes and proxies.

use crate::common::{Ask, Server};
use esker_server::client::Client;

use super::{connect_as, server};

#[test]
fn roles_are_granted_activated_and_revoked() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER low, giver; CREATE ROLE r, s; GRANT SELECT ON d.* TO r; GRANT INSERT ON d.t TO s");
    root.run("GRANT r TO low; GRANT s TO r");
    assert_eq!(root.code("CREATE ROLE r"), Some(1396));
    assert_eq!(root.code("GRANT r TO s"), Some(4027));
    assert_eq!(root.code("GRANT nobody TO low"), Some(3523));
    assert!(Client::connect("127.0.0.1", server.port, "r", "", None).is_err());
    let mut low = connect_as(&server, "low");
    assert_eq!(low.value("SELECT CURRENT_ROLE()"), "NONE");
    assert_eq!(low.code("SELECT * FROM d.t"), Some(1142));
    low.run("SET ROLE r");
    assert_eq!(low.value("SELECT CURRENT_ROLE()"), "`r`@`%`");
    low.run("SELECT * FROM d.t; INSERT INTO d.t VALUES (7, 7)");
    let with_role = [
        "GRANT USAGE ON *.* TO `low`@`%`",
        "GRANT SELECT ON `d`.* TO `low`@`%`",
        "GRANT INSERT ON `d`.`t` TO `low`@`%`",
        "GRANT `r`@`%` TO `low`@`%`",
    ];
    assert_eq!(low.lines("SHOW GRANTS"), with_role);
    assert_eq!(root.lines("SHOW GRANTS FOR low USING r"), with_role);
    assert_eq!(root.lines("SHOW GRANTS FOR low").len(), 2);
    assert_eq!(root.code("SHOW GRANTS FOR low USING s"), Some(3530));
    assert_eq!(low.code("SET ROLE s"), Some(3530));
    low.run("SET ROLE NONE");
    assert_eq!(low.code("SELECT * FROM d.t"), Some(1142));
    low.run("SET ROLE ALL EXCEPT r");
    assert_eq!(low.value("SELECT CURRENT_ROLE()"), "NONE");
    low.run("SET DEFAULT ROLE ALL TO low");
    let mut again = connect_as(&server, "low");
    assert_eq!(again.value("SELECT CURRENT_ROLE()"), "`r`@`%`");
    // A role that is revoked is gone from open sessions.
    root.run("REVOKE r FROM low");
    assert_eq!(again.value("SELECT CURRENT_ROLE()"), "NONE");
    assert_eq!(again.code("SELECT * FROM d.t"), Some(1142));
    // WITH ADMIN OPTION.
    assert_eq!(low.code("GRANT r TO giver"), Some(1227));
    root.run("GRANT r TO low WITH ADMIN OPTION");
    low.run("GRANT r TO giver");
    assert_eq!(
        root.lines("SHOW GRANTS FOR giver")[1],
        "GRANT `r`@`%` TO `giver`@`%`"
    );
    // effect: activate_all_roles_on_login
    root.run("SET GLOBAL activate_all_roles_on_login = ON");
    assert_eq!(
        connect_as(&server, "giver").value("SELECT CURRENT_ROLE()"),
        "`r`@`%`"
    );
    // effect: mandatory_roles
    root.run("SET GLOBAL activate_all_roles_on_login = OFF; SET GLOBAL mandatory_roles = 's'");
    let mut giver = connect_as(&server, "giver");
    assert_eq!(giver.value("SELECT CURRENT_ROLE()"), "`s`@`%`");
    assert_eq!(root.code("DROP ROLE s"), Some(3628));
    assert_eq!(root.code("REVOKE s FROM r"), Some(3628));
    root.run("SET GLOBAL mandatory_roles = ''; DROP ROLE s, r");
    assert_eq!(giver.value("SELECT CURRENT_ROLE()"), "NONE");
    assert_eq!(root.code("DROP ROLE s"), Some(1396));
}

#[test]
fn mandatory_roles_are_everybodys_once_they_exist() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE USER u; CREATE ROLE m, own, inner_role; GRANT own TO u; SET DEFAULT ROLE own TO u",
    );
    root.run("GRANT inner_role TO m WITH ADMIN OPTION; SET GLOBAL mandatory_roles = 'm,later'");
    let mut u = connect_as(&server, "u");
    assert_eq!(u.value("SELECT CURRENT_ROLE()"), "`m`@`%`,`own`@`%`");
    u.run("SET ROLE DEFAULT");
    assert_eq!(u.value("SELECT CURRENT_ROLE()"), "`own`@`%`");
    let what = "SELECT CONCAT_WS(' ', GRANTEE, ROLE_NAME, IS_GRANTABLE, IS_DEFAULT, IS_MANDATORY)";
    let of = |table| format!("{what} FROM information_schema.{table} ORDER BY GRANTEE, ROLE_NAME");
    let applicable = ["m inner_role YES NO NO", "u m NO NO YES", "u own NO YES NO"];
    assert_eq!(u.lines(&of("APPLICABLE_ROLES")), applicable);
    assert_eq!(
        u.lines(&of("ADMINISTRABLE_ROLE_AUTHORIZATIONS")),
        applicable[..1]
    );
    // A name of nobody is neither held nor kept from being dropped.
    assert_eq!(
        u.lines("SHOW GRANTS")[1],
        "GRANT `m`@`%`,`own`@`%` TO `u`@`%`"
    );
    assert_eq!(u.code("SET ROLE later"), Some(3530));
    assert_eq!(root.code("DROP ROLE later"), Some(1396));
    root.run("CREATE ROLE later");
    assert_eq!(root.code("DROP ROLE later"), Some(3628));
    // effect: activate_mandatory_roles
    root.run("SET GLOBAL activate_mandatory_roles = OFF");
    let mut u = connect_as(&server, "u");
    assert_eq!(u.value("SELECT CURRENT_ROLE()"), "`own`@`%`");
    u.run("SET ROLE ALL");
    assert_eq!(
        u.value("SELECT CURRENT_ROLE()"),
        "`later`@`%`,`m`@`%`,`own`@`%`"
    );
}

/// The lines of SHOW GRANTS without the account.
fn granted(c: &mut Client, user: &str) -> Vec<String> {
    let lines = c.lines(&format!("SHOW GRANTS FOR {user}"));
    let end = |line: &String| line.find(" TO `").or(line.find(" FROM `"));
    let cut = |line: &String| line[..end(line).unwrap_or(line.len())].to_owned();
    lines.iter().map(cut).collect()
}

#[test]
fn partial_revokes_take_from_what_is_granted_on_everything() {
    let (mut server, dir) = server();
    let mut root = server.connect();
    root.run("CREATE DATABASE e; CREATE TABLE e.t (a INT); CREATE USER u, v; GRANT SELECT, INSERT, UPDATE ON *.* TO u");
    assert_eq!(root.code("REVOKE INSERT ON e.* FROM u"), Some(1141));
    root.run(
        "SET GLOBAL partial_revokes = ON; REVOKE INSERT ON e.* FROM u; REVOKE INSERT ON e.* FROM u",
    );
    let mut u = connect_as(&server, "u");
    u.run("INSERT INTO d.t (a) VALUES (9)");
    assert_eq!(u.code("INSERT INTO e.t VALUES (1)"), Some(1142));
    // On the database everything asked for has to be there, ALL apart where it has a grant of its own.
    root.run("GRANT ALTER ON d.* TO u");
    for sql in [
        "REVOKE DELETE ON d.* FROM u",
        "REVOKE ALTER, DROP ON d.* FROM u",
        "REVOKE ALL ON e.* FROM u",
    ] {
        assert_eq!(root.code(sql), Some(1141), "{sql}");
    }
    root.run("GRANT SELECT ON d.* TO u; REVOKE SELECT, UPDATE, ALTER ON d.* FROM u; REVOKE SELECT ON f.* FROM u");
    assert_eq!(
        granted(&mut root, "u"),
        [
            "GRANT SELECT, INSERT, UPDATE ON *.*",
            "REVOKE UPDATE ON `d`.*",
            "REVOKE INSERT ON `e`.*",
            "REVOKE SELECT ON `f`.*",
        ]
    );
    assert_eq!(
        root.value("SELECT User_attributes FROM mysql.user WHERE user = 'u'"),
        r#"{"Restrictions": [{"Database": "d", "Privileges": ["UPDATE"]}, {"Database": "e", "Privileges": ["INSERT"]}, {"Database": "f", "Privileges": ["SELECT"]}]}"#
    );
    assert_eq!(root.code("SET GLOBAL partial_revokes = OFF"), Some(3896));
    assert_eq!(root.value("SELECT @@partial_revokes"), "1");
    // What is given back is no grant of its own; a grant on everything gives back everywhere.
    root.run("GRANT UPDATE, DROP ON d.* TO u; GRANT SELECT ON *.* TO u");
    assert_eq!(
        granted(&mut root, "u"),
        [
            "GRANT SELECT, INSERT, UPDATE ON *.*",
            "GRANT DROP ON `d`.*",
            "REVOKE INSERT ON `e`.*"
        ]
    );
    u.run("UPDATE d.t SET a = 8 WHERE a = 9");
    // Kept over a restart, which switches the variable on.
    drop((root, u));
    server.stop();
    let server = Server::start(dir.path(), &["--skip-ssl"]);
    let mut root = server.connect();
    assert_eq!(root.value("SELECT @@partial_revokes"), "1");
    assert_eq!(
        connect_as(&server, "u").code("INSERT INTO e.t VALUES (1)"),
        Some(1142)
    );
    root.run("REVOKE INSERT ON *.* FROM u; SET GLOBAL partial_revokes = OFF");
    assert_eq!(
        granted(&mut root, "u"),
        ["GRANT SELECT, UPDATE ON *.*", "GRANT DROP ON `d`.*"]
    );
}

#[test]
fn partial_revokes_are_passed_on_and_roles_lift_them() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("SET GLOBAL partial_revokes = ON; CREATE USER u, v; CREATE ROLE r");
    root.run("GRANT SELECT ON *.* TO u WITH GRANT OPTION; REVOKE SELECT ON d.* FROM u");
    let mut u = connect_as(&server, "u");
    u.run("GRANT SELECT ON *.* TO v");
    let restricted = ["GRANT SELECT ON *.*", "REVOKE SELECT ON `d`.*"];
    assert_eq!(granted(&mut root, "v"), restricted);
    assert_eq!(u.code("GRANT SELECT ON d.* TO v"), Some(1044));
    assert_eq!(u.code("GRANT SELECT ON d.t TO v"), Some(1142));
    // A role without the restriction lifts it.
    root.run("GRANT SELECT ON *.* TO r; GRANT r TO v");
    let mut v = connect_as(&server, "v");
    assert_eq!(v.code("SELECT * FROM d.t"), Some(1142));
    v.run("SET ROLE r; SELECT * FROM d.t");
    assert_eq!(
        granted(&mut root, "v USING r")[..2],
        ["GRANT SELECT ON *.*", "GRANT `r`@`%`"]
    );
    // Whoever is restricted neither takes from those who are not, nor restricts them by a grant.
    root.run("GRANT SELECT ON *.* TO v");
    assert_eq!(u.code("REVOKE SELECT ON *.* FROM v"), Some(3879));
    u.run("GRANT SELECT ON *.* TO v");
    assert_eq!(granted(&mut root, "v")[..1], ["GRANT SELECT ON *.*"]);
    v.run("SET ROLE NONE; SELECT * FROM d.t");
    // Names are literal.
    root.run(r"CREATE USER w; GRANT SELECT ON `d%`.* TO w");
    let mut w = connect_as(&server, "w");
    assert_eq!(w.code("SELECT * FROM d.t"), Some(1142));
    root.run("REVOKE ALL, GRANT OPTION FROM u; SET GLOBAL partial_revokes = OFF");
    w.run("SELECT * FROM d.t");
}

#[test]
fn a_view_has_the_default_roles_of_its_definer() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE USER maker, reader; CREATE ROLE r; GRANT SELECT ON d.t TO r; GRANT r TO maker;
         CREATE DEFINER = maker VIEW d.v AS SELECT b FROM d.t; GRANT SELECT ON d.v TO reader",
    );
    let mut reader = connect_as(&server, "reader");
    assert_eq!(reader.code("SELECT * FROM d.v"), Some(1356));
    root.run("SET DEFAULT ROLE r TO maker");
    assert_eq!(reader.value("SELECT * FROM d.v"), "2");
}

#[test]
fn a_role_made_anew_is_another_one() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run("CREATE USER low; CREATE ROLE r, s; GRANT r, s TO low; SET DEFAULT ROLE r, s TO low");
    root.run("DROP ROLE r; CREATE ROLE r; GRANT SELECT ON d.* TO r");
    assert_eq!(root.code("RENAME USER s TO renamed"), Some(3532));
    let mut low = connect_as(&server, "low");
    assert_eq!(low.code("SELECT * FROM d.t"), Some(1142));
    assert_eq!(low.value("SELECT CURRENT_ROLE()"), "`s`@`%`");
    assert_eq!(
        root.lines("SHOW GRANTS FOR low")[1],
        "GRANT `s`@`%` TO `low`@`%`"
    );
    root.run("DROP USER s; CREATE ROLE s");
    assert_eq!(root.lines("SHOW GRANTS FOR low").len(), 1);
}

#[test]
fn proxies_act_as_the_account_they_stand_for() {
    let (server, _dir) = server();
    let mut root = server.connect();
    root.run(
        "CREATE USER emp, dev, low; GRANT SELECT ON d.* TO dev; GRANT PROXY ON none TO emp; GRANT PROXY ON dev TO emp",
    );
    let who = "SELECT CONCAT_WS(' ', USER(), CURRENT_USER(), IFNULL(@@proxy_user, 'NULL'))";
    let own = "emp@localhost emp@% NULL";
    assert_eq!(connect_as(&server, "emp").value(who), own);
    // effect: check_proxy_users
    root.run("SET GLOBAL check_proxy_users = ON");
    assert_eq!(
        connect_as(&server, "emp").value(who),
        own,
        "not of its plugin"
    );
    // effect: caching_sha2_password_proxy_users
    root.run("SET GLOBAL caching_sha2_password_proxy_users = ON");
    let mut emp = connect_as(&server, "emp");
    assert_eq!(emp.value(who), "emp@localhost dev@% 'emp'@'%'");
    assert_eq!(
        emp.lines("SHOW GRANTS"),
        [
            "GRANT USAGE ON *.* TO `dev`@`%`",
            "GRANT SELECT ON `d`.* TO `dev`@`%`"
        ]
    );
    emp.run("SELECT * FROM d.t");
    root.run("REVOKE SELECT ON d.* FROM dev");
    assert_eq!(emp.code("SELECT * FROM d.t"), Some(1142));
    assert_eq!(
        connect_as(&server, "low").value(who),
        "low@localhost low@% NULL"
    );
    assert_eq!(
        root.lines("SHOW GRANTS FOR emp"),
        [
            "GRANT USAGE ON *.* TO `emp`@`%`",
            "GRANT PROXY ON `dev`@`%` TO `emp`@`%`",
            "GRANT PROXY ON `none`@`%` TO `emp`@`%`"
        ]
    );
    // The account it stands for may be locked, not be gone; its own lock counts.
    root.run("ALTER USER dev ACCOUNT LOCK");
    assert_eq!(
        connect_as(&server, "emp").value("SELECT CURRENT_USER()"),
        "dev@%"
    );
    root.run("REVOKE PROXY ON dev FROM emp; GRANT PROXY ON ''@'' TO emp");
    assert_eq!(connect_as(&server, "emp").value(who), own);
    root.run("ALTER USER emp ACCOUNT LOCK");
    assert!(Client::connect("127.0.0.1", server.port, "emp", "", None).is_err());

    // Everybody may let others act as himself, and nobody else.
    let mut low = connect_as(&server, "low");
    low.run("GRANT PROXY ON low TO emp; REVOKE PROXY ON CURRENT_USER() FROM emp");
    assert_eq!(low.code("GRANT PROXY ON dev TO emp"), Some(1698));
    assert_eq!(low.code("GRANT PROXY ON low TO nobody"), Some(1410));
    assert_eq!(low.code("REVOKE PROXY ON low FROM emp"), Some(1141));
    root.run("GRANT PROXY ON dev TO low WITH GRANT OPTION");
    low.run("GRANT PROXY ON dev TO emp");
    assert_eq!(low.code("GRANT PROXY ON ''@'' TO emp"), Some(1698));
    root.run("GRANT PROXY ON ''@'' TO low WITH GRANT OPTION");
    low.run("GRANT PROXY ON ''@'' TO emp WITH GRANT OPTION; GRANT PROXY ON any TO emp");
    let all = root.lines("SHOW GRANTS FOR low");
    assert_eq!(
        all[2],
        "GRANT PROXY ON ``@`` TO `low`@`%` WITH GRANT OPTION"
    );
}
