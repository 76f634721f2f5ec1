//! `/metrics`: SHOW GLOBAL STATUS and numeric variables in the exposition format of Prometheus.
//!
//! Neighbours: [`super`] serves it. The names are those of mysqld_exporter, so its dashboards work:
//! `mysql_global_status_…`, `mysql_global_variables_…`, `mysql_up`.
//! **Invariant**: only numbers are told; ON and OFF are 1 and 0.

use super::http::Response;
use super::inside::{Refused, Table, Viewer};

pub(super) fn respond(viewer: &mut Viewer) -> Result<Response, Refused> {
    let mut text = String::from("# TYPE mysql_up gauge\nmysql_up 1\n");
    for (prefix, sql) in [
        ("mysql_global_status", "SHOW GLOBAL STATUS"),
        ("mysql_global_variables", "SHOW GLOBAL VARIABLES"),
    ] {
        expose(prefix, &viewer.ask(sql)?, &mut text);
    }
    Ok(Response::metrics(text))
}

/// Writes the numbers of names and values.
fn expose(prefix: &str, table: &Table, out: &mut String) {
    for row in &table.rows {
        let [Some(name), Some(value)] = row.as_slice() else {
            continue;
        };
        let value = match value.as_str() {
            "ON" | "YES" => "1",
            "OFF" | "NO" => "0",
            number if number.parse::<f64>().is_ok_and(f64::is_finite) => number,
            _ => continue,
        };
        let name = format!("{prefix}_{}", metric_name(name));
        out.push_str(&format!("# TYPE {name} untyped\n{name} {value}\n"));
    }
}

/// Letters, digits and underscores.
fn metric_name(name: &str) -> String {
    let valid = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_ascii_lowercase(),
        false => '_',
    };
    name.chars().map(valid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_switches_are_told_and_texts_are_not() {
        let cell = |text: &str| Some(text.to_owned());
        let rows = [
            ("Threads_connected", "3"),
            ("ssl.on", "ON"),
            ("version", "8.4"),
            ("name", "nan"),
            ("empty", ""),
        ];
        let table = Table {
            columns: Vec::new(),
            rows: rows.iter().map(|(n, v)| vec![cell(n), cell(v)]).collect(),
        };
        let mut text = String::new();
        expose("p", &table, &mut text);
        let expected = "# TYPE p_threads_connected untyped\np_threads_connected 3\n\
                        # TYPE p_ssl_on untyped\np_ssl_on 1\n\
                        # TYPE p_version untyped\np_version 8.4\n";
        assert_eq!(text, expected);
    }
}
