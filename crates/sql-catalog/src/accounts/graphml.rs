//! Accounts and the roles they have been granted as a GraphML document: ROLES_GRAPHML().
//!
//! Neighbours: the session asks, and decides who may see what; [`Role`] prints names.
//! **Invariant**: an edge leads from an account to a role that it has been granted; both are nodes.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{Account, Role, RoleName};

const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
  <key id="key0" for="edge" attr.name="color" attr.type="int" />
  <key id="key1" for="node" attr.name="name" attr.type="string" />
  <graph id="G" edgedefault="directed" parse.nodeids="canonical" parse.edgeids="canonical" parse.order="nodesfirst">
"#;
const TAIL: &str = "  </graph>\n</graphml>\n";

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// The document; without accounts, an empty one.
pub fn roles(accounts: &[Account]) -> String {
    if accounts.is_empty() {
        return "<graphml />".to_owned();
    }
    let mut out = HEAD.to_owned();
    let mut numbers: HashMap<RoleName, usize> = HashMap::new();
    for (number, account) in accounts.iter().enumerate() {
        let name = (account.user.clone(), account.host.clone());
        let shown = escaped(&Role(&name).to_string());
        numbers.insert(name, number);
        let data = format_args!("      <data key=\"key1\">{shown}</data>\n");
        writeln!(out, "    <node id=\"n{number}\">\n{data}    </node>")
            .expect("a String takes everything");
    }
    let mut edge = 0;
    for (from, account) in accounts.iter().enumerate() {
        for granted in &account.roles {
            let Some(to) = numbers.get(&granted.role) else {
                continue;
            };
            let head =
                format_args!("    <edge id=\"e{edge}\" source=\"n{from}\" target=\"n{to}\">\n");
            let admin = u8::from(granted.admin);
            let data = format_args!("      <data key=\"key0\">{admin}</data>\n");
            writeln!(out, "{head}{data}    </edge>").expect("a String takes everything");
            edge += 1;
        }
    }
    out.push_str(TAIL);
    out
}
