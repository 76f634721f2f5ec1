The procedures of `sys` that make reports, in the same form as the others.

procedure diagnostics(IN in_max_runtime INT UNSIGNED, IN in_interval INT UNSIGNED, IN in_auto_config ENUM('current', 'medium', 'full'))
BEGIN
  DECLARE begun, until_then DATETIME(6) DEFAULT SYSDATE(6);
  DECLARE longest INT UNSIGNED DEFAULT IFNULL(in_max_runtime, 60);
  DECLARE pause INT UNSIGNED DEFAULT IFNULL(in_interval, 30);
  DECLARE nth INT UNSIGNED DEFAULT 0;
  IF pause = 0 THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'in_interval must be greater than 0';
  ELSEIF longest < pause THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'in_max_runtime must be greater than or equal to in_interval';
  END IF;
  SET until_then = begun + INTERVAL longest SECOND;
  SELECT 'Hostname' AS Name, @@hostname AS Value UNION ALL SELECT 'Port', @@port UNION ALL
  SELECT 'Socket', @@socket UNION ALL SELECT 'Datadir', @@datadir UNION ALL
  SELECT 'Server UUID', @@server_uuid UNION ALL SELECT '-----------------------', REPEAT('-', 36) UNION ALL
  SELECT 'MySQL Version', VERSION() UNION ALL SELECT 'Sys Schema Version', (SELECT sys_version FROM sys.version)
  UNION ALL SELECT 'Version Comment', @@version_comment UNION ALL
  SELECT 'Version Compile OS', @@version_compile_os UNION ALL
  SELECT 'Version Compile Machine', @@version_compile_machine UNION ALL
  SELECT '-----------------------', REPEAT('-', 36) UNION ALL SELECT 'UTC Time', UTC_TIMESTAMP() UNION ALL
  SELECT 'Local Time', NOW() UNION ALL SELECT 'Time Zone', @@time_zone UNION ALL
  SELECT 'System Time Zone', @@system_time_zone UNION ALL
  SELECT 'Time Zone Offset', TIMEDIFF(NOW(), UTC_TIMESTAMP());
  CALL sys.statement_performance_analyzer('create_tmp', 'sys.tmp_digests_start', NULL);
  CALL sys.statement_performance_analyzer('snapshot', NULL, NULL);
  CALL sys.statement_performance_analyzer('save', 'sys.tmp_digests_start', NULL);
  DROP TEMPORARY TABLE IF EXISTS sys.tmp_metrics_start;
  CREATE TEMPORARY TABLE sys.tmp_metrics_start AS SELECT * FROM sys.metrics;
  SELECT CONCAT('\n\n', REPEAT('=', 23), '\n\n     Configuration\n\n', REPEAT('=', 23), '\n\n') AS ``;
  BEGIN
    DECLARE title, asked TEXT;
    DECLARE is_over BOOL DEFAULT FALSE;
    DECLARE listed CURSOR FOR SELECT column_0, column_1 FROM (VALUES
      ROW('GLOBAL VARIABLES',
        'SELECT LOWER(VARIABLE_NAME) AS Variable_name, VARIABLE_VALUE AS Variable_value FROM performance_schema.global_variables ORDER BY VARIABLE_NAME'),
      ROW('Performance Schema Setup - Actors', 'SELECT * FROM performance_schema.setup_actors'),
      ROW('Performance Schema Setup - Consumers',
        'SELECT NAME AS Consumer, ENABLED, sys.ps_is_consumer_enabled(NAME) AS COLLECTS FROM performance_schema.setup_consumers'),
      ROW('Performance Schema Setup - Instruments',
        'SELECT SUBSTRING_INDEX(NAME, ''/'', 2) AS InstrumentClass, SUM(ENABLED = ''YES'') AS Enabled, COUNT(*) AS Total FROM performance_schema.setup_instruments GROUP BY 1 ORDER BY 1'),
      ROW('Performance Schema Setup - Objects', 'SELECT * FROM performance_schema.setup_objects'),
      ROW('Performance Schema Setup - Threads',
        'SELECT NAME AS ThreadName, COUNT(*) AS Threads, SUM(INSTRUMENTED = ''YES'') AS Instrumented FROM performance_schema.threads GROUP BY NAME ORDER BY NAME'),
      ROW('Replication - Connection Configuration', 'SELECT * FROM performance_schema.replication_connection_configuration'),
      ROW('Replication - Applier Configuration', 'SELECT * FROM performance_schema.replication_applier_configuration'),
      ROW('Replication - Connection metadata', 'SELECT * FROM mysql.slave_master_info'),
      ROW('Replication - Applier metadata', 'SELECT * FROM mysql.slave_relay_log_info')) AS v;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
    OPEN listed;
    sections: LOOP
      FETCH listed INTO title, asked;
      IF is_over THEN
        LEAVE sections;
      END IF;
      SELECT title AS `The following output is:`;
      CALL sys.execute_prepared_stmt(asked);
    END LOOP;
  END;
  REPEAT
    SET nth = nth + 1;
    SELECT NOW(), CONCAT('Iteration Number ', nth) AS `The following output is:`;
    BEGIN
      DECLARE title, asked TEXT;
      DECLARE is_over BOOL DEFAULT FALSE;
      DECLARE listed CURSOR FOR SELECT column_0, column_1 FROM (VALUES
        ROW('SHOW BINARY LOG STATUS', 'SHOW BINARY LOG STATUS'),
        ROW('SHOW REPLICA STATUS', 'SHOW REPLICA STATUS'),
        ROW('Replication Connection Status', 'SELECT * FROM performance_schema.replication_connection_status'),
        ROW('Replication Applier Status', 'SELECT * FROM performance_schema.replication_applier_status'),
        ROW('Replication Applier Status - Coordinator',
          'SELECT * FROM performance_schema.replication_applier_status_by_coordinator'),
        ROW('Replication Applier Status - Worker',
          'SELECT * FROM performance_schema.replication_applier_status_by_worker'),
        ROW('SHOW ENGINE INNODB STATUS', 'SHOW ENGINE INNODB STATUS'),
        ROW('InnoDB - Transactions', 'SELECT * FROM information_schema.INNODB_TRX'),
        ROW('SELECT * FROM sys.processlist', 'SELECT * FROM sys.processlist'),
        ROW('SELECT * FROM sys.memory_by_host_by_current_bytes', 'SELECT * FROM sys.memory_by_host_by_current_bytes'),
        ROW('SELECT * FROM sys.memory_by_thread_by_current_bytes', 'SELECT * FROM sys.memory_by_thread_by_current_bytes'),
        ROW('SELECT * FROM sys.memory_by_user_by_current_bytes', 'SELECT * FROM sys.memory_by_user_by_current_bytes'),
        ROW('SELECT * FROM sys.memory_global_by_current_bytes', 'SELECT * FROM sys.memory_global_by_current_bytes')) AS v;
      DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
      OPEN listed;
      sections: LOOP
        FETCH listed INTO title, asked;
        IF is_over THEN
          LEAVE sections;
        END IF;
        SELECT title AS `The following output is:`;
        CALL sys.execute_prepared_stmt(asked);
      END LOOP;
    END;
    IF SYSDATE(6) < until_then THEN
      SELECT NOW() AS `Time`, CONCAT('Going to sleep for ',
        ROUND(LEAST(pause, TIMESTAMPDIFF(MICROSECOND, SYSDATE(6), until_then) / 1e6), 2),
        ' seconds. Please do not interrupt') AS `The following output is:`;
      DO SLEEP(GREATEST(0, LEAST(pause, TIMESTAMPDIFF(MICROSECOND, SYSDATE(6), until_then) / 1e6)));
    END IF;
  UNTIL SYSDATE(6) >= until_then END REPEAT;
  SELECT 'SHOW ENGINE PERFORMANCE_SCHEMA STATUS' AS `The following output is:`;
  SHOW ENGINE PERFORMANCE_SCHEMA STATUS;
  SELECT CONCAT('\n\n', REPEAT('=', 28), '\n\n     Schema Information\n\n', REPEAT('=', 28), '\n\n') AS ``;
  SELECT COUNT(*) AS `Total Number of Tables` FROM information_schema.tables;
  SELECT 'Unused Indexes' AS `The following output is:`;
  SELECT object_schema, COUNT(*) AS NumUnusedIndexes FROM performance_schema.table_io_waits_summary_by_index_usage
  WHERE index_name IS NOT NULL AND count_star = 0 AND object_schema NOT IN ('mysql', 'sys') AND index_name != 'PRIMARY'
  GROUP BY object_schema;
  SELECT CONCAT('\n\n', REPEAT('=', 25), '\n\n     Overall Status\n\n', REPEAT('=', 25), '\n\n') AS ``;
  SELECT 'CALL sys.ps_statement_avg_latency_histogram()' AS `The following output is:`;
  CALL sys.ps_statement_avg_latency_histogram();
  CALL sys.statement_performance_analyzer('snapshot', NULL, NULL);
  CALL sys.statement_performance_analyzer('overall', NULL, 'with_runtimes_in_95th_percentile');
  BEGIN
    DECLARE named VARCHAR(64);
    DECLARE is_over BOOL DEFAULT FALSE;
    DECLARE listed CURSOR FOR SELECT column_0 FROM (VALUES ROW('host_summary'), ROW('host_summary_by_file_io'),
      ROW('host_summary_by_file_io_type'), ROW('host_summary_by_stages'), ROW('host_summary_by_statement_latency'),
      ROW('host_summary_by_statement_type'), ROW('io_by_thread_by_latency'), ROW('io_global_by_file_by_bytes'),
      ROW('io_global_by_file_by_latency'), ROW('io_global_by_wait_by_bytes'), ROW('io_global_by_wait_by_latency'),
      ROW('schema_index_statistics'), ROW('schema_table_statistics'), ROW('schema_tables_with_full_table_scans'),
      ROW('user_summary'), ROW('user_summary_by_file_io'), ROW('user_summary_by_file_io_type'),
      ROW('user_summary_by_stages'), ROW('user_summary_by_statement_latency'), ROW('user_summary_by_statement_type'),
      ROW('wait_classes_global_by_avg_latency'), ROW('wait_classes_global_by_latency'), ROW('waits_by_host_by_latency'),
      ROW('waits_by_user_by_latency'), ROW('waits_global_by_latency')) AS v;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
    OPEN listed;
    sections: LOOP
      FETCH listed INTO named;
      IF is_over THEN
        LEAVE sections;
      END IF;
      SELECT CONCAT('Overall ', named) AS `The following output is:`;
      CALL sys.execute_prepared_stmt(CONCAT('SELECT * FROM sys.', named, ' LIMIT 100'));
    END LOOP;
  END;
  SELECT CONCAT('\n\n', REPEAT('=', 22), '\n\n     Delta Status\n\n', REPEAT('=', 22), '\n\n') AS ``;
  CALL sys.statement_performance_analyzer('delta', 'sys.tmp_digests_start', 'with_runtimes_in_95th_percentile');
  SELECT 'SELECT * FROM sys.metrics' AS `The following output is:`;
  SELECT e.Variable_name, s.Variable_value AS `Output 1`, e.Variable_value AS `Output 2`,
    IF(s.Variable_value REGEXP '^-?[0-9]+(\\.[0-9]+)?$' AND e.Variable_value REGEXP '^-?[0-9]+(\\.[0-9]+)?$',
      CONCAT(ROUND(e.Variable_value - s.Variable_value, 2), ' (', ROUND((e.Variable_value - s.Variable_value)
      / GREATEST(TIMESTAMPDIFF(MICROSECOND, begun, SYSDATE(6)) / 1e6, 0.001), 2), '/sec)'), '') AS `Delta (1 -> 2)`,
    e.Type, e.Enabled
  FROM sys.metrics e LEFT JOIN sys.tmp_metrics_start s ON s.Variable_name = e.Variable_name AND s.Type = e.Type
  ORDER BY e.Type, e.Variable_name;
  DROP TEMPORARY TABLE IF EXISTS sys.tmp_metrics_start, sys.tmp_digests_start;
  CALL sys.statement_performance_analyzer('cleanup', NULL, NULL);
END

procedure ps_statement_avg_latency_histogram()
BEGIN
  DECLARE buckets INT DEFAULT 16;
  DECLARE least, width DECIMAL(40, 6);
  DECLARE total, counted, bucket, nth BIGINT DEFAULT 0;
  DECLARE is_over BOOL DEFAULT FALSE;
  DECLARE report LONGTEXT DEFAULT '\n\n  . = 1 unit\n  * = 2 units\n  # = 3 units\n\n';
  DECLARE listed CURSOR FOR
    SELECT LEAST(FLOOR((AVG_TIMER_WAIT / 1e9 - least) / width), buckets - 1) AS place, COUNT(*)
    FROM performance_schema.events_statements_summary_by_digest GROUP BY place ORDER BY place;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
  SELECT COUNT(*), IFNULL(MIN(AVG_TIMER_WAIT), 0) / 1e9,
    GREATEST((MAX(AVG_TIMER_WAIT) - MIN(AVG_TIMER_WAIT)) / 1e9 / (buckets - 1), 0.000001)
  INTO total, least, width FROM performance_schema.events_statements_summary_by_digest;
  SET width = IFNULL(width, 0.000001);
  OPEN listed;
  FETCH listed INTO bucket, counted;
  WHILE nth < buckets DO
    SET report = CONCAT(report, RPAD(CONCAT('(', ROUND(least + nth * width), ' - ',
      ROUND(least + (nth + 1) * width), 'ms)'), 17, ' '), RPAD(IF(is_over OR bucket <> nth, 0, counted), 6, ' '), '| ',
      CASE
        WHEN is_over OR bucket <> nth THEN ''
        WHEN counted < 40 THEN REPEAT('.', counted)
        WHEN counted < 80 THEN REPEAT('*', counted DIV 2)
        ELSE REPEAT('#', counted DIV 3)
      END, '\n');
    IF NOT is_over AND bucket = nth THEN
      FETCH listed INTO bucket, counted;
    END IF;
    SET nth = nth + 1;
  END WHILE;
  CLOSE listed;
  SET report = CONCAT(report, '\n  Total Statements: ', total, '; Buckets: ', buckets, '; Bucket Size: ', ROUND(width),
    ' ms;\n');
  SELECT report AS `Performance Schema Statement Digest Average Latency Histogram`;
END

procedure ps_trace_statement_digest(IN in_digest VARCHAR(64), IN in_runtime INT, IN in_interval DECIMAL(2, 2), IN in_start_fresh BOOLEAN, IN in_auto_enable BOOLEAN)
BEGIN
  DECLARE until_then DATETIME(6) DEFAULT SYSDATE(6) + INTERVAL IFNULL(in_runtime, 60) SECOND;
  DECLARE begun BIGINT UNSIGNED DEFAULT 0;
  DECLARE slowest_thread, slowest_event BIGINT UNSIGNED;
  DECLARE slowest_text LONGTEXT;
  DROP TEMPORARY TABLE IF EXISTS sys.tmp_trace;
  CREATE TEMPORARY TABLE sys.tmp_trace AS SELECT * FROM performance_schema.events_statements_history LIMIT 0;
  IF NOT IFNULL(in_start_fresh, FALSE) THEN
    SET begun = 0;
  ELSE
    SET begun = (SELECT IFNULL(MAX(TIMER_START), 0) FROM performance_schema.events_statements_history);
  END IF;
  watching: LOOP
    INSERT INTO sys.tmp_trace SELECT h.* FROM performance_schema.events_statements_history h
    WHERE h.DIGEST = in_digest AND h.TIMER_START > begun AND NOT EXISTS
      (SELECT 1 FROM sys.tmp_trace t WHERE t.THREAD_ID = h.THREAD_ID AND t.EVENT_ID = h.EVENT_ID);
    IF SYSDATE(6) >= until_then THEN
      LEAVE watching;
    END IF;
    DO SLEEP(GREATEST(in_interval, 0.01));
  END LOOP;
  SELECT 'SUMMARY STATISTICS';
  SELECT COUNT(*) AS executions, format_pico_time(SUM(TIMER_WAIT)) AS exec_time,
    format_pico_time(SUM(LOCK_TIME)) AS lock_time, SUM(ROWS_SENT) AS rows_sent, SUM(ROWS_AFFECTED) AS rows_affected,
    SUM(ROWS_EXAMINED) AS rows_examined, SUM(CREATED_TMP_TABLES) AS tmp_tables, SUM(NO_INDEX_USED) AS full_scans
  FROM sys.tmp_trace;
  SELECT 'LONGEST RUNNING STATEMENT';
  SELECT THREAD_ID AS thread_id, format_pico_time(TIMER_WAIT) AS exec_time, format_pico_time(LOCK_TIME) AS lock_time,
    ROWS_SENT AS rows_sent, ROWS_AFFECTED AS rows_affected, ROWS_EXAMINED AS rows_examined,
    CREATED_TMP_TABLES AS tmp_tables, NO_INDEX_USED AS full_scan
  FROM sys.tmp_trace ORDER BY TIMER_WAIT DESC LIMIT 1;
  BEGIN
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT THREAD_ID, EVENT_ID, SQL_TEXT INTO slowest_thread, slowest_event, slowest_text
    FROM sys.tmp_trace ORDER BY TIMER_WAIT DESC LIMIT 1;
  END;
  IF slowest_text IS NOT NULL THEN
    SELECT slowest_text AS sql_text;
    SELECT EVENT_NAME AS event_name, format_pico_time(TIMER_WAIT) AS latency
    FROM performance_schema.events_stages_history_long
    WHERE THREAD_ID = slowest_thread AND NESTING_EVENT_ID = slowest_event ORDER BY TIMER_START;
    BEGIN
      -- What cannot be explained, or needs another database, is not.
      DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END;
      CALL sys.execute_prepared_stmt(CONCAT('EXPLAIN ', slowest_text));
    END;
  END IF;
  DROP TEMPORARY TABLE IF EXISTS sys.tmp_trace;
END

procedure ps_trace_thread(IN in_thread_id BIGINT UNSIGNED, IN in_outfile VARCHAR(255), IN in_max_runtime DECIMAL(20, 2), IN in_interval DECIMAL(20, 2), IN in_start_fresh BOOLEAN, IN in_auto_setup BOOLEAN, IN in_debug BOOLEAN)
BEGIN
  DECLARE until_then DATETIME(6) DEFAULT SYSDATE(6) + INTERVAL IFNULL(in_max_runtime, 60) SECOND;
  DECLARE begun BIGINT UNSIGNED DEFAULT 0;
  DECLARE graph LONGTEXT;
  DECLARE last, event, took BIGINT UNSIGNED;
  DECLARE said LONGTEXT;
  DECLARE is_over BOOL DEFAULT FALSE;
  DROP TEMPORARY TABLE IF EXISTS sys.tmp_thread_trace;
  CREATE TEMPORARY TABLE sys.tmp_thread_trace AS SELECT * FROM performance_schema.events_statements_history LIMIT 0;
  IF IFNULL(in_start_fresh, FALSE) THEN
    SET begun = (SELECT IFNULL(MAX(TIMER_START), 0) FROM performance_schema.events_statements_history
      WHERE THREAD_ID = in_thread_id);
  END IF;
  SELECT CONCAT('Data collection starting for THREAD_ID = ', in_thread_id) AS Info;
  watching: LOOP
    INSERT INTO sys.tmp_thread_trace SELECT h.* FROM performance_schema.events_statements_history h
    WHERE h.THREAD_ID = in_thread_id AND h.TIMER_START > begun
      AND NOT EXISTS (SELECT 1 FROM sys.tmp_thread_trace t WHERE t.EVENT_ID = h.EVENT_ID);
    IF SYSDATE(6) >= until_then THEN
      LEAVE watching;
    END IF;
    DO SLEEP(GREATEST(IFNULL(in_interval, 1), 0.01));
  END LOOP;
  SET graph = CONCAT('digraph events\n{ rankdir=LR; nodesep=0.10;\n// Thread ', in_thread_id, '\n');
  BEGIN
    DECLARE listed CURSOR FOR SELECT EVENT_ID, TIMER_WAIT, SQL_TEXT FROM sys.tmp_thread_trace ORDER BY EVENT_ID;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
    OPEN listed;
    nodes: LOOP
      FETCH listed INTO event, took, said;
      IF is_over THEN
        LEAVE nodes;
      END IF;
      SET graph = CONCAT(graph, 'statement_', event, ' [shape=box, label="', REPLACE(REPLACE(REPLACE(
        sys.format_statement(IFNULL(said, '')), '\\', '\\\\'), '"', '\\"'), '\n', ' '), '\\n',
        format_pico_time(took), '"];\n',
        IF(last IS NULL, '', CONCAT('statement_', last, ' -> statement_', event, ';\n')));
      SET last = event;
    END LOOP;
    CLOSE listed;
  END;
  SET @sys.graph = CONCAT(graph, '}\n');
  CALL sys.execute_prepared_stmt(CONCAT('SELECT @sys.graph INTO OUTFILE ', QUOTE(in_outfile),
    ' FIELDS ESCAPED BY '''' LINES TERMINATED BY '''''));
  SET @sys.graph = NULL;
  DROP TEMPORARY TABLE IF EXISTS sys.tmp_thread_trace;
  SELECT CONCAT('Stack trace written to ', in_outfile) AS Info;
  SELECT CONCAT('dot -Tpdf -o /tmp/stack_', in_thread_id, '.pdf ', in_outfile) AS `Convert to PDF`;
  SELECT CONCAT('dot -Tpng -o /tmp/stack_', in_thread_id, '.png ', in_outfile) AS `Convert to PNG`;
END

procedure statement_performance_analyzer(IN in_action ENUM('snapshot', 'overall', 'delta', 'create_table', 'create_tmp', 'save', 'cleanup'), IN in_table VARCHAR(129), IN in_views SET('with_runtimes_in_95th_percentile', 'analysis', 'with_errors_or_warnings', 'with_full_table_scans', 'with_sorting', 'with_temp_tables', 'custom'))
BEGIN
  DECLARE schema_part VARCHAR(64) DEFAULT IF(in_table LIKE '%.%',
    TRIM(BOTH '`' FROM SUBSTRING_INDEX(in_table, '.', 1)), DATABASE());
  DECLARE table_part VARCHAR(64) DEFAULT TRIM(BOTH '`' FROM SUBSTRING_INDEX(in_table, '.', -1));
  DECLARE quoted VARCHAR(140) DEFAULT CONCAT(sys.quote_identifier(schema_part), '.', sys.quote_identifier(table_part));
  DECLARE kind ENUM('', 'BASE TABLE', 'VIEW', 'TEMPORARY') DEFAULT '';
  DECLARE message, source, asked TEXT;
  DECLARE digests VARCHAR(64) DEFAULT 'performance_schema.events_statements_summary_by_digest';
  DECLARE chosen TEXT DEFAULT IFNULL(in_views,
    'with_runtimes_in_95th_percentile,analysis,with_errors_or_warnings,with_full_table_scans,with_sorting,with_temp_tables');
  IF in_table IS NOT NULL AND in_table <> 'NOW()' AND in_action IN ('create_table', 'create_tmp', 'save', 'delta', 'overall')
  THEN
    CALL sys.table_exists(schema_part, table_part, kind);
    IF in_action IN ('create_table', 'create_tmp') AND kind <> '' THEN
      SET message = CONCAT('Cannot create the table ', quoted, ' as it already exists.');
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = message;
    ELSEIF in_action NOT IN ('create_table', 'create_tmp') AND kind = '' THEN
      SET message = LEFT(CONCAT('The ', in_action, ' action requires in_table to be ',
        IF(in_action = 'overall', 'NULL, NOW() or specify ', ''), 'an existing table. The table ', quoted,
        ' does not exist.'), 128);
      SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = message;
    END IF;
  ELSEIF in_table IS NULL AND in_action IN ('save', 'delta') THEN
    SET message = CONCAT('The ', in_action, ' action requires in_table to be an existing table.');
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = message;
  END IF;
  IF in_action = 'snapshot' OR in_action IN ('save', 'delta', 'overall') AND NOT EXISTS (SELECT 1 FROM
    (SELECT @sys.has_snapshot AS has) s WHERE has = CONNECTION_ID()) OR in_action = 'overall' AND in_table = 'NOW()'
  THEN
    DROP TEMPORARY TABLE IF EXISTS sys.tmp_digests;
    CALL sys.execute_prepared_stmt(CONCAT('CREATE TEMPORARY TABLE sys.tmp_digests AS SELECT * FROM ', digests));
    SET @sys.has_snapshot = CONNECTION_ID();
  END IF;
  CASE in_action
    WHEN 'snapshot' THEN BEGIN END;
    WHEN 'create_table' THEN
      CALL sys.execute_prepared_stmt(CONCAT('CREATE TABLE ', quoted, ' (KEY (SCHEMA_NAME, DIGEST)) AS SELECT * FROM ',
        digests, ' LIMIT 0'));
    WHEN 'create_tmp' THEN
      CALL sys.execute_prepared_stmt(CONCAT('CREATE TEMPORARY TABLE ', quoted,
        ' (KEY (SCHEMA_NAME, DIGEST)) AS SELECT * FROM ', digests, ' LIMIT 0'));
    WHEN 'save' THEN
      CALL sys.execute_prepared_stmt(CONCAT('DELETE FROM ', quoted));
      CALL sys.execute_prepared_stmt(CONCAT('INSERT INTO ', quoted, ' SELECT * FROM sys.tmp_digests'));
    WHEN 'cleanup' THEN
      DROP TEMPORARY TABLE IF EXISTS sys.tmp_digests, sys.tmp_digests_delta;
      SET @sys.has_snapshot = NULL;
    ELSE
      SET source = IF(in_action = 'delta', 'sys.tmp_digests_delta',
        IF(in_table IS NULL OR in_table = 'NOW()', 'sys.tmp_digests', quoted));
      IF in_action = 'delta' THEN
        DROP TEMPORARY TABLE IF EXISTS sys.tmp_digests_delta;
        CREATE TEMPORARY TABLE sys.tmp_digests_delta AS SELECT * FROM sys.tmp_digests;
        CALL sys.execute_prepared_stmt(CONCAT('DELETE d FROM sys.tmp_digests_delta AS d JOIN ', quoted, ' AS b ',
          'ON b.SCHEMA_NAME <=> d.SCHEMA_NAME AND b.DIGEST <=> d.DIGEST WHERE d.COUNT_STAR <= b.COUNT_STAR'));
        CALL sys.execute_prepared_stmt(CONCAT('UPDATE sys.tmp_digests_delta AS d JOIN ', quoted, ' AS b ',
          'ON b.SCHEMA_NAME <=> d.SCHEMA_NAME AND b.DIGEST <=> d.DIGEST SET d.COUNT_STAR = d.COUNT_STAR - b.COUNT_STAR',
          ', d.SUM_TIMER_WAIT = d.SUM_TIMER_WAIT - b.SUM_TIMER_WAIT',
          ', d.SUM_LOCK_TIME = d.SUM_LOCK_TIME - b.SUM_LOCK_TIME',
          ', d.SUM_ERRORS = d.SUM_ERRORS - b.SUM_ERRORS, d.SUM_WARNINGS = d.SUM_WARNINGS - b.SUM_WARNINGS',
          ', d.SUM_ROWS_AFFECTED = d.SUM_ROWS_AFFECTED - b.SUM_ROWS_AFFECTED',
          ', d.SUM_ROWS_SENT = d.SUM_ROWS_SENT - b.SUM_ROWS_SENT',
          ', d.SUM_ROWS_EXAMINED = d.SUM_ROWS_EXAMINED - b.SUM_ROWS_EXAMINED',
          ', d.SUM_CREATED_TMP_DISK_TABLES = d.SUM_CREATED_TMP_DISK_TABLES - b.SUM_CREATED_TMP_DISK_TABLES',
          ', d.SUM_CREATED_TMP_TABLES = d.SUM_CREATED_TMP_TABLES - b.SUM_CREATED_TMP_TABLES',
          ', d.SUM_SELECT_FULL_JOIN = d.SUM_SELECT_FULL_JOIN - b.SUM_SELECT_FULL_JOIN',
          ', d.SUM_SELECT_FULL_RANGE_JOIN = d.SUM_SELECT_FULL_RANGE_JOIN - b.SUM_SELECT_FULL_RANGE_JOIN',
          ', d.SUM_SELECT_RANGE = d.SUM_SELECT_RANGE - b.SUM_SELECT_RANGE',
          ', d.SUM_SELECT_RANGE_CHECK = d.SUM_SELECT_RANGE_CHECK - b.SUM_SELECT_RANGE_CHECK',
          ', d.SUM_SELECT_SCAN = d.SUM_SELECT_SCAN - b.SUM_SELECT_SCAN',
          ', d.SUM_SORT_MERGE_PASSES = d.SUM_SORT_MERGE_PASSES - b.SUM_SORT_MERGE_PASSES',
          ', d.SUM_SORT_RANGE = d.SUM_SORT_RANGE - b.SUM_SORT_RANGE',
          ', d.SUM_SORT_ROWS = d.SUM_SORT_ROWS - b.SUM_SORT_ROWS',
          ', d.SUM_SORT_SCAN = d.SUM_SORT_SCAN - b.SUM_SORT_SCAN',
          ', d.SUM_NO_INDEX_USED = d.SUM_NO_INDEX_USED - b.SUM_NO_INDEX_USED',
          ', d.SUM_NO_GOOD_INDEX_USED = d.SUM_NO_GOOD_INDEX_USED - b.SUM_NO_GOOD_INDEX_USED',
          ', d.SUM_CPU_TIME = d.SUM_CPU_TIME - b.SUM_CPU_TIME',
          ', d.COUNT_SECONDARY = d.COUNT_SECONDARY - b.COUNT_SECONDARY'));
        UPDATE sys.tmp_digests_delta SET AVG_TIMER_WAIT = SUM_TIMER_WAIT DIV COUNT_STAR;
      END IF;
      BEGIN
        DECLARE choice, view_name VARCHAR(64);
        DECLARE title TEXT;
        DECLARE is_over BOOL DEFAULT FALSE;
        DECLARE limited BIGINT UNSIGNED DEFAULT IFNULL(@sys.statement_performance_analyzer.limit,
          sys.sys_get_config('statement_performance_analyzer.limit', '100'));
        DECLARE listed CURSOR FOR SELECT column_0, column_1, column_2 FROM (VALUES
          ROW('with_runtimes_in_95th_percentile', 'Queries with Runtime in 95th Percentile',
            'statements_with_runtimes_in_95th_percentile'),
          ROW('analysis', 'Top % Queries Ordered by Total Latency', 'statement_analysis'),
          ROW('with_errors_or_warnings', 'Top % Queries with Errors', 'statements_with_errors_or_warnings'),
          ROW('with_full_table_scans', 'Top % Queries with Full Table Scan', 'statements_with_full_table_scans'),
          ROW('with_sorting', 'Top % Queries with Sorting', 'statements_with_sorting'),
          ROW('with_temp_tables', 'Top % Queries with Internal Temporary Tables', 'statements_with_temp_tables'),
          ROW('custom', 'Top % Queries Using Custom View', @sys.statement_performance_analyzer.view)) AS v
          WHERE FIND_IN_SET(column_0, chosen);
        DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
        OPEN listed;
        views: LOOP
          FETCH listed INTO choice, title, view_name;
          IF is_over THEN
            LEAVE views;
          END IF;
          SELECT REPLACE(title, '%', limited) AS `Next Output`;
          IF view_name IS NULL THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'The @sys.statement_performance_analyzer.view user variable must be set with the view or query to use.';
          END IF;
          SET schema_part = IF(choice = 'custom' AND view_name LIKE '%.%',
            TRIM(BOTH '`' FROM SUBSTRING_INDEX(view_name, '.', 1)), IF(choice = 'custom', DATABASE(), 'sys'));
          SET view_name = TRIM(BOTH '`' FROM SUBSTRING_INDEX(view_name, '.', -1));
          SET asked = (SELECT CONCAT('WITH shown (',
            (SELECT GROUP_CONCAT(sys.quote_identifier(column_name) ORDER BY ordinal_position)
            FROM information_schema.columns c WHERE c.table_schema = v.table_schema AND c.table_name = v.table_name),
            ') AS (', v.view_definition, ' LIMIT ', limited, ') SELECT * FROM shown')
            FROM information_schema.views v WHERE v.table_schema = schema_part AND v.table_name = view_name);
          SET asked = REPLACE(REPLACE(REPLACE(asked, '`', ''), digests, source),
            '(select max(avg_us) * 1000000 from sys.x$ps_digest_95th_percentile_by_avg_us)',
            '@sys.least_of_slowest');
          CALL sys.execute_prepared_stmt(CONCAT('SELECT MIN(AVG_TIMER_WAIT) INTO @sys.least_of_slowest FROM (SELECT ',
            'AVG_TIMER_WAIT, CUME_DIST() OVER (ORDER BY AVG_TIMER_WAIT) AS place FROM ', source,
            ') AS ranked WHERE place > 0.95'));
          CALL sys.execute_prepared_stmt(asked);
        END LOOP;
        CLOSE listed;
        SET @sys.least_of_slowest = NULL;
      END;
  END CASE;
END
