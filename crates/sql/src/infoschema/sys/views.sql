-- Queries of the views of `sys`, one for each pair of a view and its `x$` twin, which shows numbers as they are.
-- {time:…}, {bytes:…}, {path:…} and {text:…} are formatted in the one and bare in the other,
-- {raw:…} is only in the other. Columns are named by the view.

view version
select '2.1.2', version()

view memory_global_total
select {bytes:sum(CURRENT_NUMBER_OF_BYTES_USED)} from performance_schema.memory_summary_global_by_event_name

view memory_global_by_current_bytes
select EVENT_NAME, CURRENT_COUNT_USED, {bytes:CURRENT_NUMBER_OF_BYTES_USED},
  {bytes:ifnull(CURRENT_NUMBER_OF_BYTES_USED div nullif(CURRENT_COUNT_USED, 0), 0)}, HIGH_COUNT_USED,
  {bytes:HIGH_NUMBER_OF_BYTES_USED}, {bytes:ifnull(HIGH_NUMBER_OF_BYTES_USED div nullif(HIGH_COUNT_USED, 0), 0)}
from performance_schema.memory_summary_global_by_event_name
where CURRENT_NUMBER_OF_BYTES_USED > 0 order by CURRENT_NUMBER_OF_BYTES_USED desc

view session_ssl_status
select s.THREAD_ID, s.VARIABLE_VALUE, c.VARIABLE_VALUE, '0'
from performance_schema.status_by_thread s join performance_schema.status_by_thread c
  on c.THREAD_ID = s.THREAD_ID and c.VARIABLE_NAME = 'Ssl_cipher'
where s.VARIABLE_NAME = 'Ssl_version'

view metrics
select lower(VARIABLE_NAME) collate utf8mb4_0900_ai_ci, VARIABLE_VALUE collate utf8mb4_0900_ai_ci, 'Global Status',
  'YES' from performance_schema.global_status
union all select convert(NAME using utf8mb4), cast(COUNT as char),
  concat('InnoDB Metrics - ', convert(SUBSYSTEM using utf8mb4)), if(STATUS = 'enabled', 'YES', 'NO')
from information_schema.INNODB_METRICS
union all select 'memory_current_allocated', cast(sum(CURRENT_NUMBER_OF_BYTES_USED) as char), 'Performance Schema', 'YES'
from performance_schema.memory_summary_global_by_event_name
union all select 'NOW()', cast(now(3) as char), 'System Time', 'YES'
union all select 'UNIX_TIMESTAMP()', cast(round(unix_timestamp(now(3)), 3) as char), 'System Time', 'YES'

view processlist
select t.THREAD_ID, t.PROCESSLIST_ID, if(t.NAME = 'thread/sql/one_connection',
  concat(t.PROCESSLIST_USER, '@', t.PROCESSLIST_HOST), t.NAME), t.PROCESSLIST_DB, t.PROCESSLIST_COMMAND,
  t.PROCESSLIST_STATE, t.PROCESSLIST_TIME, {text:t.PROCESSLIST_INFO}, t.EXECUTION_ENGINE,
  if(e.END_EVENT_ID is null, {time:e.TIMER_WAIT}, null),
  if(e.END_EVENT_ID is null, round(100 * g.WORK_COMPLETED / nullif(g.WORK_ESTIMATED, 0), 2), null), {time:e.LOCK_TIME}, {time:e.CPU_TIME}, e.ROWS_EXAMINED,
  e.ROWS_SENT, e.ROWS_AFFECTED, e.CREATED_TMP_TABLES, e.CREATED_TMP_DISK_TABLES,
  if(e.NO_INDEX_USED > 0 or e.NO_GOOD_INDEX_USED > 0, 'YES', 'NO'),
  if(e.END_EVENT_ID is not null, {text:e.SQL_TEXT}, null), if(e.END_EVENT_ID is not null, {time:e.TIMER_WAIT}, null),
  {bytes:t.TOTAL_MEMORY}, null, null, null, null, if(x.ID is null, null, 'ACTIVE'), null, p.ATTR_VALUE, n.ATTR_VALUE
from performance_schema.threads t
  left join performance_schema.events_statements_current e on e.THREAD_ID = t.THREAD_ID
  left join performance_schema.events_stages_current g on g.THREAD_ID = t.THREAD_ID
  left join information_schema.ESKER_TRANSACTIONS x on x.ID = t.PROCESSLIST_ID
  left join performance_schema.session_connect_attrs p on p.PROCESSLIST_ID = t.PROCESSLIST_ID and p.ATTR_NAME = '_pid'
  left join performance_schema.session_connect_attrs n
    on n.PROCESSLIST_ID = t.PROCESSLIST_ID and n.ATTR_NAME = 'program_name'
order by t.PROCESSLIST_TIME desc

view session
select * from sys.{x}processlist where conn_id is not null and command <> 'Daemon'

view innodb_lock_waits
select r.trx_wait_started, timediff(now(), r.trx_wait_started), timestampdiff(second, r.trx_wait_started, now()),
  concat('`', l.OBJECT_SCHEMA, '`.`', l.OBJECT_NAME, '`'), l.OBJECT_SCHEMA, l.OBJECT_NAME, l.PARTITION_NAME,
  l.SUBPARTITION_NAME, l.INDEX_NAME, l.LOCK_TYPE, r.trx_id, r.trx_started, timediff(now(), r.trx_started),
  r.trx_rows_locked, r.trx_rows_modified, r.trx_mysql_thread_id, {text:r.trx_query}, l.ENGINE_LOCK_ID, l.LOCK_MODE,
  b.trx_id, b.trx_mysql_thread_id, {text:b.trx_query}, h.ENGINE_LOCK_ID, h.LOCK_MODE, b.trx_started,
  timediff(now(), b.trx_started), b.trx_rows_locked, b.trx_rows_modified, concat('KILL QUERY ', b.trx_mysql_thread_id),
  concat('KILL ', b.trx_mysql_thread_id)
from performance_schema.data_lock_waits w
  join information_schema.INNODB_TRX r on r.trx_id = w.REQUESTING_ENGINE_TRANSACTION_ID
  join information_schema.INNODB_TRX b on b.trx_id = w.BLOCKING_ENGINE_TRANSACTION_ID
  join performance_schema.data_locks l on l.ENGINE_LOCK_ID = w.REQUESTING_ENGINE_LOCK_ID
  left join performance_schema.data_locks h on h.ENGINE_LOCK_ID = w.BLOCKING_ENGINE_LOCK_ID
order by r.trx_wait_started

view schema_table_lock_waits
select g.OBJECT_SCHEMA, g.OBJECT_NAME, p.OWNER_THREAD_ID, p.OWNER_THREAD_ID,
  concat(pt.PROCESSLIST_USER, '@', pt.PROCESSLIST_HOST), p.LOCK_TYPE, p.LOCK_DURATION, {text:pt.PROCESSLIST_INFO},
  pt.PROCESSLIST_TIME, 0, 0, g.OWNER_THREAD_ID, g.OWNER_THREAD_ID,
  concat(gt.PROCESSLIST_USER, '@', gt.PROCESSLIST_HOST), g.LOCK_TYPE, g.LOCK_DURATION,
  concat('KILL QUERY ', g.OWNER_THREAD_ID), concat('KILL ', g.OWNER_THREAD_ID)
from performance_schema.metadata_locks g
  join performance_schema.metadata_locks p on p.OBJECT_TYPE = g.OBJECT_TYPE and p.OBJECT_SCHEMA = g.OBJECT_SCHEMA
    and p.OBJECT_NAME = g.OBJECT_NAME and g.LOCK_STATUS = 'GRANTED' and p.LOCK_STATUS = 'PENDING'
  join performance_schema.threads gt on gt.THREAD_ID = g.OWNER_THREAD_ID
  join performance_schema.threads pt on pt.THREAD_ID = p.OWNER_THREAD_ID
where g.OBJECT_TYPE = 'TABLE' and g.OWNER_THREAD_ID <> p.OWNER_THREAD_ID

view statement_analysis
select {text:DIGEST_TEXT}, SCHEMA_NAME, if(SUM_NO_GOOD_INDEX_USED > 0 or SUM_NO_INDEX_USED > 0, '*', ''), COUNT_STAR,
  {raw:COUNT_SECONDARY,} SUM_ERRORS, SUM_WARNINGS, {time:SUM_TIMER_WAIT}, {time:MAX_TIMER_WAIT},
  {time:AVG_TIMER_WAIT}, {time:SUM_LOCK_TIME},
  {time:SUM_CPU_TIME}, SUM_ROWS_SENT, round(ifnull(SUM_ROWS_SENT / nullif(COUNT_STAR, 0), 0)), SUM_ROWS_EXAMINED,
  round(ifnull(SUM_ROWS_EXAMINED / nullif(COUNT_STAR, 0), 0)), SUM_ROWS_AFFECTED,
  round(ifnull(SUM_ROWS_AFFECTED / nullif(COUNT_STAR, 0), 0)), SUM_CREATED_TMP_TABLES, SUM_CREATED_TMP_DISK_TABLES,
  SUM_SORT_ROWS, SUM_SORT_MERGE_PASSES, {bytes:MAX_CONTROLLED_MEMORY}, {bytes:MAX_TOTAL_MEMORY}, DIGEST, FIRST_SEEN,
  LAST_SEEN
from performance_schema.events_statements_summary_by_digest order by SUM_TIMER_WAIT desc

view statements_with_errors_or_warnings
select {text:DIGEST_TEXT}, SCHEMA_NAME, COUNT_STAR, SUM_ERRORS, ifnull(SUM_ERRORS / nullif(COUNT_STAR, 0), 0) * 100,
  SUM_WARNINGS, ifnull(SUM_WARNINGS / nullif(COUNT_STAR, 0), 0) * 100, FIRST_SEEN, LAST_SEEN, DIGEST
from performance_schema.events_statements_summary_by_digest where SUM_ERRORS > 0 or SUM_WARNINGS > 0
order by SUM_ERRORS desc, SUM_WARNINGS desc

view statements_with_full_table_scans
select {text:DIGEST_TEXT}, SCHEMA_NAME, COUNT_STAR, {time:SUM_TIMER_WAIT}, SUM_NO_INDEX_USED, SUM_NO_GOOD_INDEX_USED,
  round(ifnull(SUM_NO_INDEX_USED / nullif(COUNT_STAR, 0), 0) * 100), SUM_ROWS_SENT, SUM_ROWS_EXAMINED,
  round(SUM_ROWS_SENT / COUNT_STAR), round(SUM_ROWS_EXAMINED / COUNT_STAR), FIRST_SEEN, LAST_SEEN, DIGEST
from performance_schema.events_statements_summary_by_digest
where (SUM_NO_INDEX_USED > 0 or SUM_NO_GOOD_INDEX_USED > 0) and DIGEST_TEXT not like 'SHOW%'
order by SUM_NO_INDEX_USED desc, SUM_TIMER_WAIT desc

view statements_with_runtimes_in_95th_percentile
select {text:DIGEST_TEXT}, SCHEMA_NAME, if(SUM_NO_GOOD_INDEX_USED > 0 or SUM_NO_INDEX_USED > 0, '*', ''), COUNT_STAR,
  SUM_ERRORS, SUM_WARNINGS, {time:SUM_TIMER_WAIT}, {time:MAX_TIMER_WAIT}, {time:AVG_TIMER_WAIT}, SUM_ROWS_SENT,
  round(SUM_ROWS_SENT / COUNT_STAR), SUM_ROWS_EXAMINED, round(SUM_ROWS_EXAMINED / COUNT_STAR), FIRST_SEEN, LAST_SEEN,
  DIGEST
from performance_schema.events_statements_summary_by_digest d
where AVG_TIMER_WAIT >= (select max(avg_us) * 1000000 from sys.x$ps_digest_95th_percentile_by_avg_us)
order by AVG_TIMER_WAIT desc

view statements_with_sorting
select {text:DIGEST_TEXT}, SCHEMA_NAME, COUNT_STAR, {time:SUM_TIMER_WAIT}, SUM_SORT_MERGE_PASSES,
  round(SUM_SORT_MERGE_PASSES / COUNT_STAR), SUM_SORT_SCAN, SUM_SORT_RANGE, SUM_SORT_ROWS,
  round(SUM_SORT_ROWS / COUNT_STAR), FIRST_SEEN, LAST_SEEN, DIGEST
from performance_schema.events_statements_summary_by_digest where SUM_SORT_ROWS > 0 or SUM_SORT_MERGE_PASSES > 0
order by SUM_TIMER_WAIT desc

view statements_with_temp_tables
select {text:DIGEST_TEXT}, SCHEMA_NAME, COUNT_STAR, {time:SUM_TIMER_WAIT}, SUM_CREATED_TMP_TABLES,
  SUM_CREATED_TMP_DISK_TABLES, round(SUM_CREATED_TMP_TABLES / COUNT_STAR),
  round(ifnull(SUM_CREATED_TMP_DISK_TABLES / nullif(SUM_CREATED_TMP_TABLES, 0), 0) * 100), FIRST_SEEN, LAST_SEEN, DIGEST
from performance_schema.events_statements_summary_by_digest where SUM_CREATED_TMP_TABLES > 0
order by SUM_CREATED_TMP_DISK_TABLES desc, SUM_CREATED_TMP_TABLES desc

view x$ps_digest_avg_latency_distribution
select count(*), round(AVG_TIMER_WAIT / 1000000) as us from performance_schema.events_statements_summary_by_digest
group by us

view x$ps_digest_95th_percentile_by_avg_us
select a.avg_us, ifnull(sum(b.cnt) / nullif((select count(*)
  from performance_schema.events_statements_summary_by_digest), 0), 0) as percentile
from sys.x$ps_digest_avg_latency_distribution a
  join sys.x$ps_digest_avg_latency_distribution b on b.avg_us <= a.avg_us
group by a.avg_us having percentile > 0.95 order by percentile limit 1

view user_summary_by_statement_latency
select ifnull(USER, 'background'), sum(COUNT_STAR), {time:sum(SUM_TIMER_WAIT)}, {time:max(MAX_TIMER_WAIT)},
  {time:sum(SUM_LOCK_TIME)}, {time:sum(SUM_CPU_TIME)}, sum(SUM_ROWS_SENT), sum(SUM_ROWS_EXAMINED),
  sum(SUM_ROWS_AFFECTED), sum(SUM_NO_INDEX_USED) + sum(SUM_NO_GOOD_INDEX_USED)
from performance_schema.events_statements_summary_by_user_by_event_name
group by ifnull(USER, 'background') order by sum(SUM_TIMER_WAIT) desc

view user_summary_by_statement_type
select ifnull(USER, 'background'), substring_index(EVENT_NAME, '/', -1), COUNT_STAR, {time:SUM_TIMER_WAIT},
  {time:MAX_TIMER_WAIT}, {time:SUM_LOCK_TIME}, {time:SUM_CPU_TIME}, SUM_ROWS_SENT, SUM_ROWS_EXAMINED,
  SUM_ROWS_AFFECTED, SUM_NO_INDEX_USED + SUM_NO_GOOD_INDEX_USED
from performance_schema.events_statements_summary_by_user_by_event_name where SUM_TIMER_WAIT <> 0
order by USER, SUM_TIMER_WAIT desc

view user_summary
select ifnull(a.USER, 'background'), s.total, {time:s.total_latency},
  {time:ifnull(s.total_latency / nullif(s.total, 0), 0)}, s.full_scans, 0, {time:0}, sum(a.CURRENT_CONNECTIONS),
  sum(a.TOTAL_CONNECTIONS), count(distinct a.HOST), {bytes:0}, {bytes:0}
from performance_schema.accounts a
  left join sys.x$user_summary_by_statement_latency s on s.user = ifnull(a.USER, 'background')
group by ifnull(a.USER, 'background'), s.total, s.total_latency, s.full_scans order by s.total_latency desc

view host_summary_by_statement_latency
select ifnull(HOST, 'background'), sum(COUNT_STAR), {time:sum(SUM_TIMER_WAIT)}, {time:max(MAX_TIMER_WAIT)},
  {time:sum(SUM_LOCK_TIME)}, {time:sum(SUM_CPU_TIME)}, sum(SUM_ROWS_SENT), sum(SUM_ROWS_EXAMINED),
  sum(SUM_ROWS_AFFECTED), sum(SUM_NO_INDEX_USED) + sum(SUM_NO_GOOD_INDEX_USED)
from performance_schema.events_statements_summary_by_host_by_event_name
group by ifnull(HOST, 'background') order by sum(SUM_TIMER_WAIT) desc

view host_summary_by_statement_type
select ifnull(HOST, 'background'), substring_index(EVENT_NAME, '/', -1), COUNT_STAR, {time:SUM_TIMER_WAIT},
  {time:MAX_TIMER_WAIT}, {time:SUM_LOCK_TIME}, {time:SUM_CPU_TIME}, SUM_ROWS_SENT, SUM_ROWS_EXAMINED,
  SUM_ROWS_AFFECTED, SUM_NO_INDEX_USED + SUM_NO_GOOD_INDEX_USED
from performance_schema.events_statements_summary_by_host_by_event_name where SUM_TIMER_WAIT <> 0
order by HOST, SUM_TIMER_WAIT desc

view host_summary
select ifnull(a.HOST, 'background'), s.total, {time:s.total_latency},
  {time:ifnull(s.total_latency / nullif(s.total, 0), 0)}, s.full_scans, 0, {time:0}, sum(a.CURRENT_CONNECTIONS),
  sum(a.TOTAL_CONNECTIONS), count(distinct a.USER), {bytes:0}, {bytes:0}
from performance_schema.accounts a
  left join sys.x$host_summary_by_statement_latency s on s.host = ifnull(a.HOST, 'background')
group by ifnull(a.HOST, 'background'), s.total, s.total_latency, s.full_scans order by s.total_latency desc

view schema_object_overview
select TABLE_SCHEMA, TABLE_TYPE, count(*) from information_schema.TABLES group by TABLE_SCHEMA, TABLE_TYPE
union all select TABLE_SCHEMA, concat('INDEX (', INDEX_TYPE, ')'), count(*) from information_schema.STATISTICS
group by TABLE_SCHEMA, INDEX_TYPE
union all select ROUTINE_SCHEMA, ROUTINE_TYPE, count(*) from information_schema.ROUTINES
group by ROUTINE_SCHEMA, ROUTINE_TYPE
union all select TRIGGER_SCHEMA, 'TRIGGER', count(*) from information_schema.TRIGGERS group by TRIGGER_SCHEMA
union all select EVENT_SCHEMA, 'EVENT', count(*) from information_schema.EVENTS group by EVENT_SCHEMA

view schema_auto_increment_columns
select c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.DATA_TYPE, c.COLUMN_TYPE, locate('unsigned', c.COLUMN_TYPE) = 0,
  locate('unsigned', c.COLUMN_TYPE) > 0, m.most, t.AUTO_INCREMENT, t.AUTO_INCREMENT / m.most
from information_schema.COLUMNS c
  join information_schema.TABLES t on t.TABLE_SCHEMA = c.TABLE_SCHEMA and t.TABLE_NAME = c.TABLE_NAME
  join (select 'tinyint' as kind, 0 as bare, 127 as most union all select 'tinyint', 1, 255
    union all select 'smallint', 0, 32767 union all select 'smallint', 1, 65535
    union all select 'mediumint', 0, 8388607 union all select 'mediumint', 1, 16777215
    union all select 'int', 0, 2147483647 union all select 'int', 1, 4294967295
    union all select 'bigint', 0, 9223372036854775807 union all select 'bigint', 1, 18446744073709551615) m
    on m.kind = c.DATA_TYPE and m.bare = (locate('unsigned', c.COLUMN_TYPE) > 0)
where c.EXTRA = 'auto_increment' and t.TABLE_TYPE = 'BASE TABLE'
  and c.TABLE_SCHEMA not in ('mysql', 'sys', 'information_schema', 'performance_schema')
order by t.AUTO_INCREMENT / m.most desc, m.most

view x$schema_flattened_keys
select TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, max(NON_UNIQUE), max(if(SUB_PART is null, 0, 1)),
  group_concat(COLUMN_NAME order by SEQ_IN_INDEX separator ',')
from information_schema.STATISTICS
where INDEX_TYPE = 'BTREE' and TABLE_SCHEMA not in ('mysql', 'sys', 'information_schema', 'performance_schema')
group by TABLE_SCHEMA, TABLE_NAME, INDEX_NAME

view schema_redundant_indexes
select r.table_schema, r.table_name, r.index_name, r.index_columns, r.non_unique, d.index_name, d.index_columns,
  d.non_unique, if(r.subpart_exists or d.subpart_exists, 1, 0),
  concat('ALTER TABLE `', r.table_schema, '`.`', r.table_name, '` DROP INDEX `', r.index_name, '`')
from sys.x$schema_flattened_keys r
  join sys.x$schema_flattened_keys d on d.table_schema = r.table_schema and d.table_name = r.table_name
where r.index_name <> d.index_name
  and ((r.index_columns = d.index_columns and (r.non_unique > d.non_unique
      or (r.non_unique = d.non_unique and if(r.index_name = 'PRIMARY', '', r.index_name)
        > if(d.index_name = 'PRIMARY', '', d.index_name))))
    or (r.non_unique = 1 and locate(concat(r.index_columns, ','), d.index_columns) = 1)
    or (d.non_unique = 0 and locate(concat(d.index_columns, ','), r.index_columns) = 1))

view ps_check_lost_instrumentation
select VARIABLE_NAME, VARIABLE_VALUE from performance_schema.global_status
where VARIABLE_NAME like 'perf%lost' and VARIABLE_VALUE > 0

view schema_table_statistics
select OBJECT_SCHEMA, OBJECT_NAME, {time:SUM_TIMER_WAIT}, COUNT_FETCH, {time:SUM_TIMER_FETCH}, COUNT_INSERT,
  {time:SUM_TIMER_INSERT}, COUNT_UPDATE, {time:SUM_TIMER_UPDATE}, COUNT_DELETE, {time:SUM_TIMER_DELETE},
  null, null, null, null, null, null, null, null
from performance_schema.table_io_waits_summary_by_table order by SUM_TIMER_WAIT desc, COUNT_STAR desc

view schema_table_statistics_with_buffer
select OBJECT_SCHEMA, OBJECT_NAME, COUNT_FETCH, {time:SUM_TIMER_FETCH}, COUNT_INSERT, {time:SUM_TIMER_INSERT},
  COUNT_UPDATE, {time:SUM_TIMER_UPDATE}, COUNT_DELETE, {time:SUM_TIMER_DELETE}, null, null, null, null, null, null,
  null, null, null, null, null, null, null, null, null
from performance_schema.table_io_waits_summary_by_table order by SUM_TIMER_WAIT desc, COUNT_STAR desc

view schema_index_statistics
select OBJECT_SCHEMA, OBJECT_NAME, INDEX_NAME, COUNT_FETCH, {time:SUM_TIMER_FETCH}, COUNT_INSERT,
  {time:SUM_TIMER_INSERT}, COUNT_UPDATE, {time:SUM_TIMER_UPDATE}, COUNT_DELETE, {time:SUM_TIMER_DELETE}
from performance_schema.table_io_waits_summary_by_index_usage
where INDEX_NAME is not null order by SUM_TIMER_WAIT desc, COUNT_STAR desc

view schema_tables_with_full_table_scans
select OBJECT_SCHEMA, OBJECT_NAME, COUNT_READ, {time:SUM_TIMER_WAIT}
from performance_schema.table_io_waits_summary_by_index_usage
where INDEX_NAME is null and COUNT_READ > 0 order by COUNT_READ desc

view schema_unused_indexes
select t.OBJECT_SCHEMA, t.OBJECT_NAME, t.INDEX_NAME
from performance_schema.table_io_waits_summary_by_index_usage t
  join information_schema.STATISTICS s on t.OBJECT_SCHEMA = s.TABLE_SCHEMA and t.OBJECT_NAME = s.TABLE_NAME
    and t.INDEX_NAME = s.INDEX_NAME
where t.COUNT_STAR = 0 and t.INDEX_NAME <> 'PRIMARY' and s.NON_UNIQUE = 1 and s.SEQ_IN_INDEX = 1
order by t.OBJECT_SCHEMA, t.OBJECT_NAME

view io_global_by_file_by_bytes
select {path:FILE_NAME}, COUNT_READ, {bytes:SUM_NUMBER_OF_BYTES_READ},
  {bytes:ifnull(SUM_NUMBER_OF_BYTES_READ / nullif(COUNT_READ, 0), 0)}, COUNT_WRITE, {bytes:SUM_NUMBER_OF_BYTES_WRITE},
  {bytes:ifnull(SUM_NUMBER_OF_BYTES_WRITE / nullif(COUNT_WRITE, 0), 0.00)},
  {bytes:SUM_NUMBER_OF_BYTES_READ + SUM_NUMBER_OF_BYTES_WRITE},
  ifnull(round(100 - SUM_NUMBER_OF_BYTES_READ / nullif(SUM_NUMBER_OF_BYTES_READ + SUM_NUMBER_OF_BYTES_WRITE, 0) * 100,
    2), 0.00)
from performance_schema.file_summary_by_instance order by SUM_NUMBER_OF_BYTES_READ + SUM_NUMBER_OF_BYTES_WRITE desc

view io_global_by_file_by_latency
select {path:FILE_NAME}, COUNT_STAR, {time:SUM_TIMER_WAIT}, COUNT_READ, {time:SUM_TIMER_READ}, COUNT_WRITE,
  {time:SUM_TIMER_WRITE}, COUNT_MISC, {time:SUM_TIMER_MISC}
from performance_schema.file_summary_by_instance order by SUM_TIMER_WAIT desc

view io_global_by_wait_by_bytes
select substring_index(EVENT_NAME, '/', -2), COUNT_STAR, {time:SUM_TIMER_WAIT}, {time:MIN_TIMER_WAIT},
  {time:AVG_TIMER_WAIT}, {time:MAX_TIMER_WAIT}, COUNT_READ, {bytes:SUM_NUMBER_OF_BYTES_READ},
  {bytes:ifnull(SUM_NUMBER_OF_BYTES_READ / nullif(COUNT_READ, 0), 0)}, COUNT_WRITE, {bytes:SUM_NUMBER_OF_BYTES_WRITE},
  {bytes:ifnull(SUM_NUMBER_OF_BYTES_WRITE / nullif(COUNT_WRITE, 0), 0)},
  {bytes:SUM_NUMBER_OF_BYTES_WRITE + SUM_NUMBER_OF_BYTES_READ}
from performance_schema.file_summary_by_event_name where COUNT_STAR > 0
order by SUM_NUMBER_OF_BYTES_WRITE + SUM_NUMBER_OF_BYTES_READ desc

view io_global_by_wait_by_latency
select substring_index(EVENT_NAME, '/', -2), COUNT_STAR, {time:SUM_TIMER_WAIT}, {time:AVG_TIMER_WAIT},
  {time:MAX_TIMER_WAIT}, {time:SUM_TIMER_READ}, {time:SUM_TIMER_WRITE}, {time:SUM_TIMER_MISC}, COUNT_READ,
  {bytes:SUM_NUMBER_OF_BYTES_READ}, {bytes:ifnull(SUM_NUMBER_OF_BYTES_READ / nullif(COUNT_READ, 0), 0)}, COUNT_WRITE,
  {bytes:SUM_NUMBER_OF_BYTES_WRITE}, {bytes:ifnull(SUM_NUMBER_OF_BYTES_WRITE / nullif(COUNT_WRITE, 0), 0)}
from performance_schema.file_summary_by_event_name where COUNT_STAR > 0 order by SUM_TIMER_WAIT desc
