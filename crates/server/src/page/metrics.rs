//! `/metrics`: SHOW GLOBAL STATUS, numeric variables and channels of replication, for Prometheus.
//!
//! Neighbours: [`super`] serves it, `exposition` has the formats. Names and labels are those of mysqld_exporter's
//! collectors `global_status`, `global_variables` and `slave_status`, so its dashboards and rules work.
//! **Invariant**: only numbers are told; ON, Yes and the like are 1, their opposites 0.

use super::exposition::{Exposition, Format, Kind};
use super::http::{Request, Response};
use super::inside::{Refused, Table, Viewer};

/// Prefixes of status variables that are one family, whose label has the rest of the name.
const FAMILIES: [(&str, &str, &str); 5] = [
    ("com_", "commands_total", "command"),
    ("handler_", "handlers_total", "handler"),
    ("connection_errors_", "connection_errors_total", "error"),
    ("innodb_rows_", "innodb_row_ops_total", "operation"),
    (
        "performance_schema_",
        "performance_schema_lost_total",
        "instrumentation",
    ),
];

pub(super) fn respond(request: &Request, viewer: &mut Viewer) -> Result<Response, Refused> {
    let format = match request.takes_openmetrics {
        true => Format::OpenMetrics,
        false => Format::Text,
    };
    let mut told = Exposition::default();
    told.add("mysql_up", Kind::Gauge, &[], "1");
    add_status(&viewer.ask("SHOW GLOBAL STATUS")?, &mut told);
    add_variables(&viewer.ask("SHOW GLOBAL VARIABLES")?, &mut told);
    // Whoever may not see the channels gets the rest.
    if let Ok(channels) = viewer.ask("SHOW REPLICA STATUS") {
        add_channels(&channels, &mut told);
    }
    Ok(Response::metrics(format.content_type(), told.text(format)))
}

fn add_status(status: &Table, told: &mut Exposition) {
    for (name, value) in pairs(status) {
        let (name, Some(value)) = (metric_name(name), number(value)) else {
            continue;
        };
        if let Some(state) = name.strip_prefix("innodb_buffer_pool_pages_") {
            add_pages(state, value, told);
            continue;
        }
        let family = FAMILIES.iter().find_map(|(prefix, family, label)| {
            let rest = name.strip_prefix(prefix)?;
            Some((*family, *label, rest))
        });
        match family {
            Some((family, label, rest)) => {
                let family = format!("mysql_global_status_{family}");
                told.add(&family, Kind::Counter, &[(label, rest)], value);
            }
            None => {
                let name = format!("mysql_global_status_{name}");
                told.add(&name, Kind::Untyped, &[], value);
            }
        }
    }
}

/// Pages of the buffer pool: states, and what was done with them.
fn add_pages(state: &str, value: &str, told: &mut Exposition) {
    match state {
        "data" | "free" | "misc" | "old" => {
            let family = "mysql_global_status_buffer_pool_pages";
            told.add(family, Kind::Gauge, &[("state", state)], value);
        }
        "dirty" => {
            let family = "mysql_global_status_buffer_pool_dirty_pages";
            told.add(family, Kind::Gauge, &[], value);
        }
        // The sum of the states.
        "total" => (),
        operation => {
            let family = "mysql_global_status_buffer_pool_page_changes_total";
            told.add(family, Kind::Counter, &[("operation", operation)], value);
        }
    }
}

fn add_variables(variables: &Table, told: &mut Exposition) {
    let mut version = [
        ("innodb_version", ""),
        ("version", ""),
        ("version_comment", ""),
    ];
    for (name, value) in pairs(variables) {
        if let Some(known) = version.iter_mut().find(|known| known.0 == name) {
            known.1 = value;
        }
        if let Some(value) = number(value) {
            let name = format!("mysql_global_variables_{}", metric_name(name));
            told.add(&name, Kind::Gauge, &[], value);
        }
    }
    told.add("mysql_version_info", Kind::Gauge, &version, "1");
}

/// Columns of SHOW REPLICA STATUS, with labels that say which channel it is.
fn add_channels(channels: &Table, told: &mut Exposition) {
    for row in &channels.rows {
        let cell = |name: &str| {
            let at = channels.columns.iter().position(|column| column == name);
            at.and_then(|at| row[at].as_deref()).unwrap_or_default()
        };
        let channel = [
            ("channel_name", cell("Channel_Name")),
            ("master_host", cell("Source_Host")),
            ("master_uuid", cell("Source_UUID")),
        ];
        for (column, value) in channels.columns.iter().zip(row) {
            if let Some(value) = value.as_deref().and_then(number) {
                let name = format!("mysql_slave_status_{}", metric_name(column));
                told.add(&name, Kind::Untyped, &channel, value);
            }
        }
    }
}

/// Names and values of a table of two columns.
fn pairs(table: &Table) -> impl Iterator<Item = (&str, &str)> {
    table.rows.iter().filter_map(|row| match row.as_slice() {
        [Some(name), Some(value)] => Some((name.as_str(), value.as_str())),
        _ => None,
    })
}

fn number(value: &str) -> Option<&str> {
    match value {
        "ON" | "YES" | "Yes" => Some("1"),
        "OFF" | "NO" | "No" | "Connecting" => Some("0"),
        number if number.parse::<f64>().is_ok_and(f64::is_finite) => Some(number),
        _ => None,
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

    fn table(rows: &[(&str, &str)]) -> Table {
        let cell = |text: &str| Some(text.to_owned());
        Table {
            columns: Vec::new(),
            rows: rows.iter().map(|(n, v)| vec![cell(n), cell(v)]).collect(),
        }
    }

    fn samples(told: &Exposition) -> Vec<String> {
        let text = told.text(Format::Text);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    }

    #[test]
    fn numbers_and_switches_are_told_and_texts_are_not() {
        let mut told = Exposition::default();
        let rows = [
            ("Threads_connected", "3"),
            ("ssl.on", "ON"),
            ("name", "nan"),
            ("empty", ""),
        ];
        add_status(&table(&rows), &mut told);
        let expected = [
            "mysql_global_status_ssl_on 1",
            "mysql_global_status_threads_connected 3",
        ];
        assert_eq!(samples(&told), expected);
    }

    #[test]
    fn families_are_those_of_mysqld_exporter() {
        let mut told = Exposition::default();
        let rows = [
            ("Com_select", "1"),
            ("Connection_errors_accept", "2"),
            ("Handler_read_key", "3"),
            ("Innodb_buffer_pool_pages_data", "4"),
            ("Innodb_buffer_pool_pages_dirty", "5"),
            ("Innodb_buffer_pool_pages_flushed", "6"),
            ("Innodb_buffer_pool_pages_total", "7"),
            ("Innodb_rows_read", "8"),
        ];
        add_status(&table(&rows), &mut told);
        let expected = [
            "mysql_global_status_buffer_pool_dirty_pages 5",
            "mysql_global_status_buffer_pool_page_changes_total{operation=\"flushed\"} 6",
            "mysql_global_status_buffer_pool_pages{state=\"data\"} 4",
            "mysql_global_status_commands_total{command=\"select\"} 1",
            "mysql_global_status_connection_errors_total{error=\"accept\"} 2",
            "mysql_global_status_handlers_total{handler=\"read_key\"} 3",
            "mysql_global_status_innodb_row_ops_total{operation=\"read\"} 8",
        ];
        assert_eq!(samples(&told), expected);
    }

    #[test]
    fn versions_and_channels_are_labels() {
        let mut told = Exposition::default();
        add_variables(&table(&[("version", "8.4.9"), ("port", "3306")]), &mut told);
        let text = |text: &str| text.to_owned();
        let channels = Table {
            columns: [
                "Channel_Name",
                "Replica_IO_Running",
                "Seconds_Behind_Source",
                "Source_Host",
            ]
            .map(text)
            .into(),
            rows: vec![vec![
                Some(text("a\"b")),
                Some(text("Yes")),
                None,
                Some(text("h")),
            ]],
        };
        add_channels(&channels, &mut told);
        let expected = [
            "mysql_global_variables_port 3306",
            "mysql_slave_status_replica_io_running{channel_name=\"a\\\"b\",master_host=\"h\",master_uuid=\"\"} 1",
            "mysql_version_info{innodb_version=\"\",version=\"8.4.9\",version_comment=\"\"} 1",
        ];
        assert_eq!(samples(&told), expected);
    }
}
