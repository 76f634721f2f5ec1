The procedures of `sys`: each begins with a line `procedure NAME(PARAMETERS)`, then comes its body.

procedure create_synonym_db(IN in_db_name VARCHAR(64), IN in_synonym VARCHAR(64))
BEGIN
  DECLARE named VARCHAR(64);
  DECLARE made INT DEFAULT 0;
  DECLARE is_over BOOL DEFAULT FALSE;
  DECLARE message VARCHAR(128);
  DECLARE listed CURSOR FOR
    SELECT table_name FROM information_schema.tables WHERE table_schema = in_db_name ORDER BY table_name;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
  IF NOT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = in_db_name) THEN
    SET message = CONCAT('Unknown database ', in_db_name);
    SIGNAL SQLSTATE 'HY000' SET MESSAGE_TEXT = message;
  END IF;
  IF EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = in_synonym) THEN
    SET message = CONCAT('Can\'t create database ', in_synonym, '; database exists');
    SIGNAL SQLSTATE 'HY000' SET MESSAGE_TEXT = message;
  END IF;
  SET @sys.statement = CONCAT('CREATE DATABASE ', sys.quote_identifier(in_synonym));
  PREPARE sys_statement FROM @sys.statement;
  EXECUTE sys_statement;
  OPEN listed;
  synonyms: LOOP
    FETCH listed INTO named;
    IF is_over THEN
      LEAVE synonyms;
    END IF;
    SET @sys.statement = CONCAT('CREATE SQL SECURITY INVOKER VIEW ', sys.quote_identifier(in_synonym), '.',
      sys.quote_identifier(named), ' AS SELECT * FROM ', sys.quote_identifier(in_db_name), '.',
      sys.quote_identifier(named));
    PREPARE sys_statement FROM @sys.statement;
    EXECUTE sys_statement;
    SET made = made + 1;
  END LOOP;
  CLOSE listed;
  DEALLOCATE PREPARE sys_statement;
  SET @sys.statement = NULL;
  SELECT CONCAT('Created ', made, ' view', IF(made = 1, '', 's'), ' in the ', sys.quote_identifier(in_synonym),
    ' database') AS summary;
END

procedure execute_prepared_stmt(IN in_query LONGTEXT)
BEGIN
  IF IFNULL(in_query, '') = '' THEN
    SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'The @sys.execute_prepared_stmt.sql must contain a query';
  END IF;
  SET @sys.statement = in_query;
  PREPARE sys_statement FROM @sys.statement;
  EXECUTE sys_statement;
  DEALLOCATE PREPARE sys_statement;
  SET @sys.statement = NULL;
END

procedure ps_setup_disable_background_threads()
BEGIN
  DECLARE changed INT;
  UPDATE performance_schema.threads SET INSTRUMENTED = 'NO' WHERE TYPE = 'BACKGROUND';
  SET changed = ROW_COUNT();
  SELECT CONCAT('Disabled ', changed, ' background thread', IF(changed = 1, '', 's')) AS summary;
END

procedure ps_setup_disable_consumer(IN consumer VARCHAR(128))
BEGIN
  DECLARE changed INT;
  UPDATE performance_schema.setup_consumers SET ENABLED = 'NO' WHERE NAME LIKE CONCAT('%', consumer, '%');
  SET changed = ROW_COUNT();
  SELECT CONCAT('Disabled ', changed, ' consumer', IF(changed = 1, '', 's')) AS summary;
END

procedure ps_setup_disable_instrument(IN in_pattern VARCHAR(128))
BEGIN
  DECLARE changed INT;
  UPDATE performance_schema.setup_instruments SET ENABLED = 'NO', TIMED = 'NO'
  WHERE NAME LIKE CONCAT('%', in_pattern, '%');
  SET changed = ROW_COUNT();
  SELECT CONCAT('Disabled ', changed, ' instrument', IF(changed = 1, '', 's')) AS summary;
END

procedure ps_setup_disable_thread(IN in_connection_id BIGINT)
BEGIN
  DECLARE changed INT;
  UPDATE performance_schema.threads SET INSTRUMENTED = 'NO' WHERE PROCESSLIST_ID = in_connection_id;
  SET changed = ROW_COUNT();
  SELECT CONCAT('Disabled ', changed, ' thread', IF(changed = 1, '', 's')) AS summary;
END

procedure ps_setup_enable_background_threads()
BEGIN
  DECLARE changed INT;
  UPDATE performance_schema.threads SET INSTRUMENTED = 'YES' WHERE TYPE = 'BACKGROUND';
  SET changed = ROW_COUNT();
  SELECT CONCAT('Enabled ', changed, ' background thread', IF(changed = 1, '', 's')) AS summary;
END

procedure ps_setup_enable_consumer(IN consumer VARCHAR(128))
BEGIN
  DECLARE changed INT;
  UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME LIKE CONCAT('%', consumer, '%');
  SET changed = ROW_COUNT();
  SELECT CONCAT('Enabled ', changed, ' consumer', IF(changed = 1, '', 's')) AS summary;
END

procedure ps_setup_enable_instrument(IN in_pattern VARCHAR(128))
BEGIN
  DECLARE changed INT;
  UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES'
  WHERE NAME LIKE CONCAT('%', in_pattern, '%');
  SET changed = ROW_COUNT();
  SELECT CONCAT('Enabled ', changed, ' instrument', IF(changed = 1, '', 's')) AS summary;
END

procedure ps_setup_enable_thread(IN in_connection_id BIGINT)
BEGIN
  DECLARE changed INT;
  UPDATE performance_schema.threads SET INSTRUMENTED = 'YES' WHERE PROCESSLIST_ID = in_connection_id;
  SET changed = ROW_COUNT();
  SELECT CONCAT('Enabled ', changed, ' thread', IF(changed = 1, '', 's')) AS summary;
END

procedure ps_setup_reload_saved()
BEGIN
  IF IS_USED_LOCK('sys.ps_setup_save') IS NULL OR IS_USED_LOCK('sys.ps_setup_save') <> CONNECTION_ID() THEN
    SIGNAL SQLSTATE '90000'
      SET MESSAGE_TEXT = 'An important lock for this thread is missing. Has ps_setup_save() been called?';
  END IF;
  DELETE FROM performance_schema.setup_actors;
  INSERT INTO performance_schema.setup_actors SELECT * FROM sys.tmp_setup_actors;
  DELETE FROM performance_schema.setup_objects;
  INSERT INTO performance_schema.setup_objects SELECT * FROM sys.tmp_setup_objects;
  UPDATE performance_schema.setup_consumers c
  SET ENABLED = (SELECT s.ENABLED FROM sys.tmp_setup_consumers s WHERE s.NAME = c.NAME);
  UPDATE performance_schema.setup_instruments i
  SET ENABLED = (SELECT s.ENABLED FROM sys.tmp_setup_instruments s WHERE s.NAME = i.NAME),
    TIMED = (SELECT s.TIMED FROM sys.tmp_setup_instruments s WHERE s.NAME = i.NAME);
  UPDATE performance_schema.threads t
  SET INSTRUMENTED = IFNULL((SELECT s.INSTRUMENTED FROM sys.tmp_threads s WHERE s.THREAD_ID = t.THREAD_ID), INSTRUMENTED);
  DROP TEMPORARY TABLE sys.tmp_setup_actors, sys.tmp_setup_objects, sys.tmp_setup_consumers, sys.tmp_setup_instruments,
    sys.tmp_threads;
  DO RELEASE_LOCK('sys.ps_setup_save');
END

procedure ps_setup_reset_to_default(IN in_verbose BOOLEAN)
BEGIN
  DELETE FROM performance_schema.setup_actors;
  INSERT INTO performance_schema.setup_actors VALUES ('%', '%', '%', 'YES', 'YES');
  UPDATE performance_schema.setup_instruments
  SET ENABLED = 'YES', TIMED = IF(NAME LIKE 'memory/%' OR NAME LIKE 'wait/io/table/%', 'NO', 'YES');
  UPDATE performance_schema.setup_consumers SET ENABLED = IF(NAME IN ('events_stages_current',
    'events_statements_current', 'events_statements_history', 'events_transactions_current', 'global_instrumentation',
    'thread_instrumentation', 'statements_digest'), 'YES', 'NO');
  DELETE FROM performance_schema.setup_objects;
  INSERT INTO performance_schema.setup_objects SELECT k.column_0, s.column_0, '%', s.column_1, s.column_1
  FROM (VALUES ROW('EVENT'), ROW('FUNCTION'), ROW('PROCEDURE'), ROW('TABLE'), ROW('TRIGGER')) AS k
    JOIN (VALUES ROW('mysql', 'NO'), ROW('performance_schema', 'NO'), ROW('information_schema', 'NO'), ROW('%', 'YES'))
    AS s;
  UPDATE performance_schema.setup_threads SET ENABLED = 'YES', HISTORY = 'YES';
  UPDATE performance_schema.threads SET INSTRUMENTED = 'YES', HISTORY = 'YES';
END

procedure ps_setup_save(IN in_timeout INT)
BEGIN
  IF NOT IFNULL(GET_LOCK('sys.ps_setup_save', in_timeout), FALSE) THEN
    SIGNAL SQLSTATE '90000'
      SET MESSAGE_TEXT = 'Could not lock the sys.ps_setup_save user lock, another thread has a saved configuration';
  END IF;
  DROP TEMPORARY TABLE IF EXISTS sys.tmp_setup_actors, sys.tmp_setup_objects, sys.tmp_setup_consumers,
    sys.tmp_setup_instruments, sys.tmp_threads;
  CREATE TEMPORARY TABLE sys.tmp_setup_actors AS SELECT * FROM performance_schema.setup_actors;
  CREATE TEMPORARY TABLE sys.tmp_setup_objects AS SELECT * FROM performance_schema.setup_objects;
  CREATE TEMPORARY TABLE sys.tmp_setup_consumers AS SELECT * FROM performance_schema.setup_consumers;
  CREATE TEMPORARY TABLE sys.tmp_setup_instruments AS SELECT * FROM performance_schema.setup_instruments;
  CREATE TEMPORARY TABLE sys.tmp_threads AS SELECT THREAD_ID, INSTRUMENTED FROM performance_schema.threads;
END

procedure ps_setup_show_disabled(IN in_show_instruments BOOLEAN, IN in_show_threads BOOLEAN)
BEGIN
  SELECT @@performance_schema AS performance_schema_enabled;
  SELECT OBJECT_TYPE AS object_type, CONCAT(OBJECT_SCHEMA, '.', OBJECT_NAME) AS objects, ENABLED AS enabled,
    TIMED AS timed
  FROM performance_schema.setup_objects WHERE ENABLED = 'NO' ORDER BY 1, 2;
  CALL sys.ps_setup_show_disabled_consumers();
  IF in_show_threads THEN
    SELECT IF(NAME = 'thread/sql/one_connection', CONCAT(PROCESSLIST_USER, '@', PROCESSLIST_HOST),
      REPLACE(NAME, 'thread/', '')) AS disabled_threads, TYPE AS thread_type
    FROM performance_schema.threads WHERE INSTRUMENTED = 'NO' ORDER BY 1;
  END IF;
  IF in_show_instruments THEN
    CALL sys.ps_setup_show_disabled_instruments();
  END IF;
END

procedure ps_setup_show_disabled_consumers()
BEGIN
  SELECT NAME AS disabled_consumers FROM performance_schema.setup_consumers WHERE ENABLED = 'NO' ORDER BY 1;
END

procedure ps_setup_show_disabled_instruments()
BEGIN
  SELECT NAME AS disabled_instruments, TIMED AS timed FROM performance_schema.setup_instruments
  WHERE ENABLED = 'NO' ORDER BY 1;
END

procedure ps_setup_show_enabled(IN in_show_instruments BOOLEAN, IN in_show_threads BOOLEAN)
BEGIN
  SELECT @@performance_schema AS performance_schema_enabled;
  SELECT CONCAT(QUOTE(USER), '@', QUOTE(HOST)) AS enabled_users
  FROM performance_schema.setup_actors WHERE ENABLED = 'YES' ORDER BY 1;
  SELECT OBJECT_TYPE AS object_type, CONCAT(OBJECT_SCHEMA, '.', OBJECT_NAME) AS objects, ENABLED AS enabled,
    TIMED AS timed
  FROM performance_schema.setup_objects WHERE ENABLED = 'YES' ORDER BY 1, 2;
  CALL sys.ps_setup_show_enabled_consumers();
  IF in_show_threads THEN
    SELECT IF(NAME = 'thread/sql/one_connection', CONCAT(PROCESSLIST_USER, '@', PROCESSLIST_HOST),
      REPLACE(NAME, 'thread/', '')) AS enabled_threads, TYPE AS thread_type
    FROM performance_schema.threads WHERE INSTRUMENTED = 'YES' ORDER BY 1;
  END IF;
  IF in_show_instruments THEN
    CALL sys.ps_setup_show_enabled_instruments();
  END IF;
END

procedure ps_setup_show_enabled_consumers()
BEGIN
  SELECT NAME AS enabled_consumers FROM performance_schema.setup_consumers WHERE ENABLED = 'YES' ORDER BY 1;
END

procedure ps_setup_show_enabled_instruments()
BEGIN
  SELECT NAME AS enabled_instruments, TIMED AS timed FROM performance_schema.setup_instruments
  WHERE ENABLED = 'YES' ORDER BY 1;
END

procedure ps_truncate_all_tables(IN in_verbose BOOLEAN)
BEGIN
  DECLARE named VARCHAR(64);
  DECLARE emptied INT DEFAULT 0;
  DECLARE is_over BOOL DEFAULT FALSE;
  DECLARE listed CURSOR FOR
    SELECT table_name FROM information_schema.tables
    WHERE table_schema = 'performance_schema' AND (table_name LIKE '%summary%' OR table_name LIKE '%history%')
    ORDER BY table_name;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_over = TRUE;
  OPEN listed;
  tables: LOOP
    FETCH listed INTO named;
    IF is_over THEN
      LEAVE tables;
    END IF;
    SET @sys.statement = CONCAT('TRUNCATE TABLE performance_schema.', sys.quote_identifier(named));
    IF in_verbose THEN
      SELECT CONCAT('Running: ', @sys.statement) AS status;
    END IF;
    PREPARE sys_statement FROM @sys.statement;
    EXECUTE sys_statement;
    SET emptied = emptied + 1;
  END LOOP;
  CLOSE listed;
  DEALLOCATE PREPARE sys_statement;
  SET @sys.statement = NULL;
  SELECT CONCAT('Truncated ', emptied, ' tables') AS summary;
END

procedure table_exists(IN in_db VARCHAR(64), IN in_table VARCHAR(64), OUT out_exists ENUM('', 'BASE TABLE', 'VIEW', 'TEMPORARY'))
BEGIN
  DECLARE named VARCHAR(140) DEFAULT CONCAT(sys.quote_identifier(in_db), '.', sys.quote_identifier(in_table));
  DECLARE is_taken, is_made BOOL DEFAULT FALSE;
  -- A temporary table is in no list, and nothing shows that there is one but that its name is taken.
  BEGIN
    DECLARE CONTINUE HANDLER FOR 1050 SET is_taken = TRUE;
    DECLARE EXIT HANDLER FOR 1049 RESIGNAL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN END;
    SET @sys.statement = CONCAT('CREATE TEMPORARY TABLE ', named, ' (a INT)');
    PREPARE sys_statement FROM @sys.statement;
    EXECUTE sys_statement;
    SET is_made = NOT is_taken;
    IF is_made THEN
      SET @sys.statement = CONCAT('DROP TEMPORARY TABLE ', named);
      PREPARE sys_statement FROM @sys.statement;
      EXECUTE sys_statement;
    END IF;
    DEALLOCATE PREPARE sys_statement;
  END;
  SET @sys.statement = NULL;
  SET out_exists = IF(is_taken, 'TEMPORARY', IFNULL((SELECT IF(table_type LIKE '%VIEW', 'VIEW', 'BASE TABLE')
    FROM information_schema.tables WHERE table_schema = in_db AND table_name = in_table), ''));
END
