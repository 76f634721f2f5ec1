// What programs do with mysql2, and what they must see. Prints "fine" when all of it is right.
//
// Arguments: port, then accounts as user:password, all of whom may do everything.
'use strict';

const assert = require('node:assert/strict');
const { Readable } = require('node:stream');
const mysql = require('mysql2/promise');

const port = Number(process.argv[2]);
const accounts = process.argv.slice(3).map((a) => a.split(':'));
const [user, password] = accounts[0];
const TLS = { rejectUnauthorized: false };

function connect(more) {
  return mysql.createConnection({ host: '127.0.0.1', port, user, password, ...more });
}

// The error a promise ends in: code, number, SQLSTATE.
async function failure(promise) {
  try {
    await promise;
  } catch (e) {
    return [e.code, e.errno, e.sqlState];
  }
  return assert.fail('no error');
}

async function logins() {
  for (const [user, password] of accounts) {
    for (const ssl of [undefined, TLS]) {
      const c = await connect({ user, password, ssl });
      const [[row]] = await c.query("SELECT CURRENT_USER() AS me, @@version_comment IS NOT NULL AS v");
      assert.deepEqual({ ...row }, { me: `${user}@localhost`, v: 1 });
      const [[status]] = await c.query("SHOW STATUS LIKE 'Ssl_version'");
      assert.equal(status.Value, ssl ? 'TLSv1.3' : '');
      await c.end();
    }
    assert.deepEqual(await failure(connect({ user, password: 'wrong' })),
      ['ER_ACCESS_DENIED_ERROR', 1045, '28000']);
  }
  assert.deepEqual(await failure(connect({ database: 'nowhere' })), ['ER_BAD_DB_ERROR', 1049, '42000']);
}

const COLUMNS = {
  i8: 'TINYINT', u8: 'TINYINT UNSIGNED', i16: 'SMALLINT', u16: 'SMALLINT UNSIGNED',
  i24: 'MEDIUMINT', u24: 'MEDIUMINT UNSIGNED', i32: 'INT', u32: 'INT UNSIGNED',
  i64: 'BIGINT', u64: 'BIGINT UNSIGNED', n: 'DECIMAL(65,30)', f: 'FLOAT', d: 'DOUBLE',
  c: 'CHAR(4)', v: 'VARCHAR(20)', t: 'TEXT', bi: 'BINARY(4)', vb: 'VARBINARY(20)', b: 'BLOB',
  da: 'DATE', ti: 'TIME(6)', dt: 'DATETIME(6)', ts: 'TIMESTAMP(6) NULL', y: 'YEAR',
  bt: 'BIT(64)', b1: 'BIT(1)', e: "ENUM('a','\u00fc')", s: "SET('x','y','z')",
};
const LOWEST = {
  i8: -128, u8: 0, i16: -32768, u16: 0, i24: -8388608, u24: 0, i32: -2147483648, u32: 0,
  i64: '-9223372036854775808', u64: 0, n: `-${'9'.repeat(35)}.${'9'.repeat(30)}`,
  f: -1.5, d: -1.7976931348623157e308, c: '', v: '', t: '', bi: Buffer.alloc(4), vb: Buffer.alloc(0),
  b: Buffer.from([0]), da: '1000-01-01', ti: '-838:59:58.000001', dt: '1000-01-01 00:00:00.000001',
  ts: '1970-01-02 00:00:01.000001', y: 1901, bt: Buffer.alloc(8), b1: Buffer.from([0]), e: 'a', s: '',
};
const HIGHEST = {
  i8: 127, u8: 255, i16: 32767, u16: 65535, i24: 8388607, u24: 16777215, i32: 2147483647, u32: 4294967295,
  i64: '9223372036854775807', u64: '18446744073709551615', n: `${'9'.repeat(35)}.${'9'.repeat(30)}`,
  f: 0.015625, d: 2.2250738585072014e-308, c: '\u{1F600}b\u00fcx', v: '\u{1F600}'.repeat(20), t: "it's \\ \"\n\0\u{10FFFF}",
  bi: Buffer.from([0, 255, 39, 92]), vb: Buffer.from([255, 0]), b: Buffer.from([...Array(256).keys()]),
  da: '9999-12-31', ti: '838:59:58.999999', dt: '9999-12-31 23:59:59.999999',
  ts: '2037-12-31 23:59:59.999999', y: 2155, bt: Buffer.alloc(8, 255), b1: Buffer.from([1]), e: '\u00fc', s: 'x,z',
};
const NULLS = Object.fromEntries(Object.keys(COLUMNS).map((k) => [k, null]));

// Every column type at its limits, written and read by both protocols.
async function types() {
  const c = await connect({ database: 'node', supportBigNumbers: true, dateStrings: true });
  const names = Object.keys(COLUMNS);
  const list = names.map((n) => `${n} ${COLUMNS[n]}`).join(', ');
  await c.query(`CREATE TABLE every_type (id INT PRIMARY KEY AUTO_INCREMENT, ${list})`);
  const insert = `INSERT INTO every_type (${names}) VALUES (${names.map(() => '?')})`;
  const rows = [LOWEST, HIGHEST, NULLS];
  for (const row of rows) await c.query(insert, Object.values(row));
  for (const row of rows) await c.execute(insert, Object.values(row));
  for (const read of ['query', 'execute']) {
    const [got] = await c[read](`SELECT ${names} FROM every_type ORDER BY id`);
    assert.equal(got.length, 6);
    got.forEach((row, i) => assert.deepEqual({ ...row }, rows[i % 3], `${read} ${i}`));
  }
  const [, fields] = await c.query('SELECT * FROM every_type AS a LIMIT 0');
  const seen = fields.map((f) => `${f.name} ${f.columnType} ${f.columnLength} ${f.flags} ${f.characterSet} ${f.decimals}`);
  assert.deepEqual(seen, FIELDS);
  assert.deepEqual([fields[0].table, fields[0].orgTable, fields[0].schema], ['a', 'every_type', 'node']);
  await c.end();
}

// name, type, length, flags, collation, decimals
const FIELDS = [
  'id 3 11 16899 63 0', 'i8 1 4 0 63 0', 'u8 1 3 32 63 0', 'i16 2 6 0 63 0', 'u16 2 5 32 63 0',
  'i24 9 9 0 63 0', 'u24 9 8 32 63 0', 'i32 3 11 0 63 0', 'u32 3 10 32 63 0', 'i64 8 20 0 63 0',
  'u64 8 20 32 63 0', 'n 246 67 0 63 30', 'f 4 12 0 63 31', 'd 5 22 0 63 31', 'c 254 16 0 224 0',
  'v 253 80 0 224 0', 't 252 262140 16 224 0', 'bi 254 4 128 63 0', 'vb 253 20 128 63 0',
  'b 252 65535 144 63 0', 'da 10 10 128 63 0', 'ti 11 17 128 63 6', 'dt 12 26 128 63 6', 'ts 7 26 128 63 6',
  'y 13 4 96 63 0', 'bt 16 64 32 63 0', 'b1 16 1 32 63 0', 'e 254 4 256 224 0', 's 254 20 2048 224 0',
];

// Numbers in statements that were prepared, where a type must be found for the parameter.
async function parameters() {
  const c = await connect({ database: 'node' });
  await c.query('CREATE TABLE p (id INT PRIMARY KEY, v VARCHAR(20), KEY (v))');
  const [header] = await c.query('INSERT INTO p VALUES ?', [[[1, 'one'], [2, 'two'], [3, null]]]);
  assert.deepEqual([header.affectedRows, header.info], [3, 'Records: 3  Duplicates: 0  Warnings: 0']);
  const ids = async (sql, params) => (await c.execute(sql, params))[0].map((r) => r.id);
  assert.deepEqual(await ids('SELECT id FROM p WHERE id = ?', [2]), [2]);
  assert.deepEqual(await ids('SELECT id FROM p WHERE id = ?', ['2']), [2]);
  assert.deepEqual(await ids('SELECT id FROM p WHERE id > ? AND id < ?', [1.5, 2.5]), [2]);
  assert.deepEqual(await ids('SELECT id FROM p WHERE v <=> ?', [null]), [3]);
  assert.deepEqual(await ids('SELECT id FROM p WHERE id IN (?, ?) ORDER BY id DESC', [1, 3]), [3, 1]);
  assert.deepEqual(await ids('SELECT id FROM p ORDER BY id LIMIT ? OFFSET ?', ['1', '1']), [2]);
  // The server tells the driver that a count is an integer, so that it sends one.
  assert.deepEqual(await ids('SELECT id FROM p ORDER BY id LIMIT ?', [1]), [1]);
  assert.deepEqual(await failure(c.execute('SELECT id FROM p LIMIT ?', [1.5])),
    ['ER_WRONG_ARGUMENTS', 1210, 'HY000']);
  const [[row]] = await c.execute('SELECT ? + 1 AS a, ? AS b, CONCAT(?, ?) AS c, ? IS NULL AS d, ? AS e',
    [41, 'x', 'y', 1, null, true]);
  assert.deepEqual({ ...row }, { a: 42, b: 'x', c: 'y1', d: 1, e: 1 });
  // The same statement again comes from the driver's cache and keeps its id.
  for (let i = 0; i < 50; i++) assert.deepEqual(await ids('SELECT id FROM p WHERE id = ?', [1]), [1]);
  const statement = await c.prepare('SELECT v FROM p WHERE id = ?');
  assert.equal((await statement.execute([1]))[0][0].v, 'one');
  assert.equal((await statement.execute([2]))[0][0].v, 'two');
  await statement.close();
  c.unprepare('SELECT id FROM p WHERE id = ?');
  assert.deepEqual(await ids('SELECT id FROM p WHERE id = ?', [1]), [1]);
  await c.end();
}

async function transactions() {
  const c = await connect({ database: 'node' });
  const other = await connect({ database: 'node', flags: ['-FOUND_ROWS'] });
  await c.query('CREATE TABLE tx (id INT AUTO_INCREMENT PRIMARY KEY, n INT, UNIQUE KEY only (n))');
  const count = async (on) => (await on.query('SELECT COUNT(*) AS n FROM tx'))[0][0].n;
  await c.beginTransaction();
  const [first] = await c.execute('INSERT INTO tx (n) VALUES (?), (?)', [10, 20]);
  assert.deepEqual([first.insertId, first.affectedRows], [1, 2]);
  assert.deepEqual([await count(c), await count(other)], [2, 0]);
  await c.rollback();
  assert.equal(await count(c), 0);
  await c.beginTransaction();
  const [second] = await c.query('INSERT INTO tx (n) VALUES (?)', [30]);
  assert.equal(second.insertId, 3);
  await c.query('SAVEPOINT s');
  await c.query('UPDATE tx SET n = 31');
  await c.query('ROLLBACK TO s');
  await c.commit();
  assert.deepEqual((await other.query('SELECT n FROM tx'))[0][0].n, 30);
  // Rows found, as the driver asks for by default, or rows changed.
  for (const [on, affected] of [[c, 1], [other, 0]]) {
    const [same] = await on.query('UPDATE tx SET n = 30 WHERE id = 3');
    assert.deepEqual([same.affectedRows, same.changedRows, same.info],
      [affected, 0, 'Rows matched: 1  Changed: 0  Warnings: 0']);
  }
  await c.query('SET SESSION innodb_lock_wait_timeout = 1');
  await other.beginTransaction();
  await other.query('SELECT * FROM tx WHERE id = 3 FOR UPDATE');
  assert.deepEqual(await failure(c.query('UPDATE tx SET n = 1 WHERE id = 3')),
    ['ER_LOCK_WAIT_TIMEOUT', 1205, 'HY000']);
  assert.deepEqual(await failure(c.query('SELECT * FROM tx FOR UPDATE NOWAIT')),
    ['ER_LOCK_NOWAIT', 3572, 'HY000']);
  await other.rollback();
  await c.end();
  await other.end();
}

async function errors() {
  const c = await connect({ database: 'node' });
  await c.query('CREATE TABLE er (id INT PRIMARY KEY, n TINYINT NOT NULL, s VARCHAR(3))');
  await c.query("INSERT INTO er VALUES (1, 1, 'x')");
  const cases = [
    ['SELEC 1', 'ER_PARSE_ERROR', 1064, '42000'],
    ['SELECT * FROM nope', 'ER_NO_SUCH_TABLE', 1146, '42S02'],
    ['SELECT nope FROM er', 'ER_BAD_FIELD_ERROR', 1054, '42S22'],
    ["INSERT INTO er VALUES (1, 1, 'y')", 'ER_DUP_ENTRY', 1062, '23000'],
    ['INSERT INTO er VALUES (2, NULL, NULL)', 'ER_BAD_NULL_ERROR', 1048, '23000'],
    ['INSERT INTO er (id) VALUES (2)', 'ER_NO_DEFAULT_FOR_FIELD', 1364, 'HY000'],
    ['INSERT INTO er VALUES (2, 128, NULL)', 'ER_WARN_DATA_OUT_OF_RANGE', 1264, '22003'],
    ["INSERT INTO er VALUES (2, 1, 'long')", 'ER_DATA_TOO_LONG', 1406, '22001'],
    ['CREATE TABLE er (id INT)', 'ER_TABLE_EXISTS_ERROR', 1050, '42S01'],
    ['DROP TABLE nope', 'ER_BAD_TABLE_ERROR', 1051, '42S02'],
    ['CREATE DATABASE node', 'ER_DB_CREATE_EXISTS', 1007, 'HY000'],
    ['SELECT nope()', 'ER_SP_DOES_NOT_EXIST', 1305, '42000'],
    ['KILL 4000000000', 'ER_NO_SUCH_THREAD', 1094, 'HY000'],
    ['SET nope = 1', 'ER_UNKNOWN_SYSTEM_VARIABLE', 1193, 'HY000'],
  ];
  for (const run of ['query', 'execute']) {
    for (const [sql, ...expected] of cases) assert.deepEqual(await failure(c[run](sql)), expected, sql);
  }
  const [header] = await c.query("INSERT IGNORE INTO er VALUES (1, 1, 'x'), (2, 300, 'long')");
  assert.deepEqual([header.affectedRows, header.warningStatus], [1, 3]);
  const [warnings] = await c.query('SHOW WARNINGS');
  assert.deepEqual(warnings.map((w) => [w.Level, w.Code]), [['Warning', 1062], ['Warning', 1264], ['Warning', 1265]]);
  await c.end();
}

async function severalStatements() {
  const one = await connect({ database: 'node' });
  assert.deepEqual(await failure(one.query('SELECT 1; SELECT 2')), ['ER_PARSE_ERROR', 1064, '42000']);
  await one.end();
  const c = await connect({ database: 'node', multipleStatements: true });
  const [results] = await c.query('CREATE TABLE ms (id INT); INSERT INTO ms VALUES (1), (2); SELECT * FROM ms; SELECT 3 AS n');
  assert.equal(results.length, 4);
  assert.equal(results[1].affectedRows, 2);
  assert.deepEqual(results.slice(2).map((rows) => rows.map((r) => ({ ...r }))), [[{ id: 1 }, { id: 2 }], [{ n: 3 }]]);
  // What came before a failing statement has happened.
  assert.deepEqual(await failure(c.query('INSERT INTO ms VALUES (3); SELECT nope; INSERT INTO ms VALUES (4)')),
    ['ER_BAD_FIELD_ERROR', 1054, '42S22']);
  assert.equal((await c.query('SELECT COUNT(*) AS n FROM ms'))[0][0].n, 3);
  await c.end();
}

async function large() {
  const c = await connect({ database: 'node' });
  const text = 'z'.repeat(17 * 1024 * 1024);
  await c.query('CREATE TABLE big (id INT PRIMARY KEY, b LONGBLOB)');
  await c.query('INSERT INTO big VALUES (1, ?)', [text]);
  await c.execute('INSERT INTO big VALUES (2, ?)', [Buffer.from(text)]);
  for (const read of ['query', 'execute']) {
    const [rows] = await c[read]('SELECT b FROM big ORDER BY id');
    assert.ok(rows.every((r) => r.b.length === text.length && r.b.every((x) => x === 122)));
  }
  // Packets of exactly the most that one frame holds are followed by an empty one.
  for (const length of [0xffffff - 1, 0xffffff, 0xffffff + 1]) {
    const sql = "SELECT LENGTH('') AS n";
    const padded = `SELECT LENGTH('${'x'.repeat(length - 1 - sql.length)}') AS n`;
    assert.equal((await c.query(padded))[0][0].n, length - 1 - sql.length);
  }
  await c.end();
}

async function streaming() {
  const c = await connect({ database: 'node' });
  await c.query('CREATE TABLE st (id INT PRIMARY KEY, s VARCHAR(100))');
  const rows = Array.from({ length: 5000 }, (_, i) => [i, `row ${i} ${'.'.repeat(80)}`]);
  await c.query('INSERT INTO st VALUES ?', [rows]);
  for (const run of ['query', 'execute']) {
    let expected = 0;
    const stream = c.connection[run]('SELECT id FROM st ORDER BY id').stream({ highWaterMark: 5 });
    for await (const row of stream) assert.equal(row.id, expected++);
    assert.equal(expected, 5000);
  }
  await c.end();
  const local = await connect({ database: 'node', infileStreamFactory: () => Readable.from(['1\n']) });
  assert.deepEqual(await failure(local.query("LOAD DATA LOCAL INFILE 'f' INTO TABLE st")),
    ['ER_CLIENT_LOCAL_FILES_DISABLED', 3948, '42000']);
  await local.end();
}

async function connections() {
  const pool = mysql.createPool({ host: '127.0.0.1', port, user, password, database: 'node', connectionLimit: 4 });
  await pool.query('CREATE TABLE po (n INT)');
  const sleeps = Array.from({ length: 20 }, (_, i) => pool.execute('INSERT INTO po VALUES (?)', [i]));
  await Promise.all(sleeps);
  assert.equal((await pool.query('SELECT COUNT(*) AS n FROM po'))[0][0].n, 20);
  await pool.end();

  const c = await connect({ database: 'node' });
  await c.ping();
  await c.query("SET @mine = 1, sql_mode = ''");
  await c.beginTransaction();
  await c.query('INSERT INTO po VALUES (99)');
  await c.query('CREATE TEMPORARY TABLE po (n INT)');
  await c.reset();
  const [[after]] = await c.query('SELECT @mine AS m, @@sql_mode AS s, DATABASE() AS d, COUNT(*) AS n FROM po');
  assert.deepEqual([after.m, after.s !== '', after.d, after.n], [null, true, 'node', 20]);
  for (const [user, password] of accounts) {
    await c.query('SET @mine = 1');
    await c.changeUser({ user, password, database: 'information_schema' });
    const [[now]] = await c.query('SELECT @mine AS m, CURRENT_USER() AS u, DATABASE() AS d');
    assert.deepEqual({ ...now }, { m: null, u: `${user}@localhost`, d: 'information_schema' });
  }
  assert.deepEqual(await failure(c.changeUser({ user, password: 'wrong' })),
    ['ER_ACCESS_DENIED_ERROR', 1045, '28000']);
  c.destroy();

  const victim = await connect({ database: 'node' });
  const killer = await connect();
  const sleeping = victim.query('SELECT SLEEP(60) AS s');
  const running = "SELECT COUNT(*) AS n FROM information_schema.processlist WHERE id = ? AND info LIKE 'SELECT SLEEP%'";
  // Killed before it sleeps, it would end in an error.
  while ((await killer.query(`${running} AND state = 'User sleep'`, [victim.threadId]))[0][0].n === 0);
  await killer.query('KILL QUERY ?', [victim.threadId]);
  assert.equal((await sleeping)[0][0].s, 1);
  // A statement that reads tables ends in an error.
  const joining = failure(victim.query('SELECT COUNT(*) FROM po a, po b WHERE SLEEP(0.2) = 0'));
  const busy = running.replace('SLEEP', 'COUNT');
  while ((await killer.query(busy, [victim.threadId]))[0][0].n === 0);
  await killer.query('KILL QUERY ?', [victim.threadId]);
  assert.deepEqual(await joining, ['ER_QUERY_INTERRUPTED', 1317, '70100']);
  assert.deepEqual(await failure(victim.query('SELECT /*+ MAX_EXECUTION_TIME(50) */ COUNT(*) FROM po a, po b WHERE SLEEP(0.2) = 0')),
    ['ER_QUERY_TIMEOUT', 3024, 'HY000']);
  await killer.query('KILL ?', [victim.threadId]);
  const [code] = await failure(victim.query('SELECT 1'));
  assert.ok(['PROTOCOL_CONNECTION_LOST', 'ECONNRESET', 'EPIPE', 'ER_QUERY_INTERRUPTED'].includes(code), code);
  const idle = await connect();
  const gone = new Promise((resolve) => idle.connection.once('error', resolve));
  await idle.query('SET SESSION wait_timeout = 1');
  assert.match((await gone).message, /inactivity/);
  await killer.end();
}

async function main() {
  await logins();
  const c = await connect();
  await c.query('CREATE DATABASE node');
  await c.end();
  for (const check of [types, parameters, transactions, errors, severalStatements, large, streaming, connections]) {
    try {
      await check();
    } catch (e) {
      console.error(`in ${check.name}:`);
      throw e;
    }
  }
  console.log('fine');
}

main().then(() => process.exit(0), (e) => { console.error(e); process.exit(1); });
