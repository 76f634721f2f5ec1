// Knex: the schema builder, migrations, seeds, queries, streams, transactions.
import Knex from 'knex'

const step = async (name, work) => {
  try { console.log(`${name}:`, JSON.stringify(await work())) }
  catch (e) { console.log(`${name}: ${e.code ?? e.name} ${e.sqlMessage ?? e.message}`) }
}
const knex = Knex({ client: 'mysql2', connection: { host: '127.0.0.1', port: +process.env.DB_PORT, user: 'root', database: process.env.DB_NAME, charset: 'utf8mb4', timezone: 'Z', decimalNumbers: false }, pool: { min: 1, max: 1 } })
const s = knex.schema

const migrations = {
  getMigrations: async () => ['1_tables', '2_changes', '3_data'], getMigrationName: m => m,
  getMigration: m => ({
    '1_tables': {
      up: k => k.schema.createTable('users', t => {
        t.increments('id'); t.string('name', 50).notNullable().unique().comment("it's"); t.enu('kind', ['a', 'b']).defaultTo('a'); t.json('data'); t.boolean('on').defaultTo(true)
        t.decimal('money', 12, 3).unsigned(); t.bigInteger('big'); t.float('f', 8, 2); t.double('d'); t.date('day'); t.time('at', { precision: 3 }); t.datetime('stamp', { precision: 6 }); t.timestamp('made').defaultTo(knex.fn.now())
        t.binary('bin', 16); t.uuid('key').defaultTo(knex.fn.uuid()); t.text('long', 'mediumtext').collate('utf8mb4_unicode_ci'); t.specificType('bits', 'bit(5)'); t.tinyint('tiny'); t.smallint('small'); t.mediumint('medium')
        t.index(['kind', 'day'], 'kind_day'); t.check('?? > 0', ['money'], 'money_positive'); t.comment('users!'); t.engine('InnoDB'); t.charset('utf8mb4')
      }).createTable('posts', t => {
        t.bigIncrements(); t.integer('user_id').unsigned().notNullable().references('users.id').onDelete('CASCADE').onUpdate('CASCADE'); t.string('title').index(); t.integer('rank').checkBetween([0, 100]); t.timestamps(false, false)
        t.unique(['user_id', 'title'], { indexName: 'ut', storageEngineIndexType: 'btree' }); t.bigInteger('parent_id').unsigned(); t.foreign(['parent_id'], 'parent').references('id').inTable('posts')
      }).createTable('pairs', t => { t.integer('a'); t.integer('b'); t.primary(['a', 'b'], 'pk') }),
      down: k => k.schema.dropTable('pairs').dropTable('posts').dropTable('users'),
    },
    '2_changes': {
      up: async k => {
        await k.schema.alterTable('users', t => { t.string('extra', 20).after('name').defaultTo("x'y"); t.integer('first').first(); t.string('name', 80).notNullable().alter(); t.dropColumn('bits'); t.renameColumn('f', 'ff'); t.setNullable('tiny'); t.dropNullable('small') })
        await k.schema.alterTable('posts', t => { t.dropForeign([], 'parent'); t.dropIndex('title'); t.dropUnique([], 'ut'); t.unique(['title', 'rank']); t.index([k.raw('(lower(`title`))')], 'low') }).catch(e => console.log('   ', e.sqlMessage ?? e.message))
        await k.schema.renameTable('pairs', 'couples')
        await k.schema.raw('CREATE VIEW names AS SELECT name FROM users')
        await k.schema.createViewOrReplace('names2', v => { v.columns(['n']); v.as(k('users').select('name').where('id', '>', 0)) })
      },
      down: k => k.schema.dropView('names').dropView('names2').renameTable('couples', 'pairs'),
    },
    '3_data': { up: k => k('couples').insert([{ a: 1, b: 1 }, { a: 1, b: 2 }]), down: k => k('couples').del() },
  }[m]),
}
await step('migrate', () => knex.migrate.latest({ migrationSource: migrations }))
await step('foreign key dropped by name', () => s.alterTable('posts', t => t.dropForeign([], 'parent')))
await step('status', () => knex.migrate.list({ migrationSource: migrations }))
await step('insert', () => knex('users').insert({ name: 'Ada', data: JSON.stringify({ a: [1, { b: 'ü' }], n: 3 }), money: '1.250', big: '9007199254740993', ff: 1.25, d: 0.1, day: '2024-02-29', at: '12:00:00.123', stamp: '2024-02-29 01:02:03.456789', bin: Buffer.from([1, 0, 255]), key: 'k', long: 'lö', tiny: 1, small: 2, medium: 3, made: '2020-01-01' }))
await step('insert many', () => knex('users').insert([{ name: 'Bob', small: 1, made: '2020-01-01', key: 'b' }, { name: 'Cid', small: 2, made: '2020-01-01', key: 'c' }]))
await step('batch insert', () => knex.batchInsert('posts', Array.from({ length: 25 }, (_, i) => ({ user_id: i % 3 + 1, title: 'p' + i, rank: i })), 10))
await step('select', () => knex('users').orderBy('id'))
await step('join', () => knex('users as u').join('posts as p', 'p.user_id', 'u.id').select('u.name').count('* as n').sum('rank as r').groupBy('u.id').havingRaw('count(*) > ?', [8]).orderBy('u.id'))
await step('json', () => knex('users').jsonExtract('data', '$.a[1].b', 'b').whereJsonPath('data', '$.n', '>', 2).orWhereJsonSupersetOf('data', { n: 3 }))
await step('json update', async () => [await knex('users').where('id', 1).update({ data: knex.jsonSet('data', '$.z', '7') }), await knex('users').where('id', 1).first('data')])
await step('window', () => knex('posts').select('id').rowNumber('rn', ['rank'], ['user_id']).rank('rk', q => q.orderBy('rank', 'desc')).orderBy('id').limit(4))
await step('with', () => knex.withRecursive('t', ['n'], q => q.select(knex.raw('1')).unionAll(r => r.select(knex.raw('n + 1')).from('t').where('n', '<', 5))).from('t'))
await step('union', () => knex('users').select('name').union([knex('posts').select('title').where('rank', '<', 2)]).orderBy('name'))
await step('intersect', () => knex('users').select('id').intersect([knex('posts').select('user_id')]).orderBy('id'))
await step('exists', () => knex('users').whereExists(knex('posts').whereRaw('posts.user_id = users.id').where('rank', 24)).pluck('name'))
await step('like', () => knex('users').whereILike('name', 'a%').orWhereLike('name', 'b%').pluck('name'))
await step('between', () => knex('posts').whereBetween('rank', [3, 5]).whereNotNull('title').whereIn(['user_id', 'rank'], [[1, 3], [2, 4]]).pluck('title'))
await step('update', () => knex('posts').where('user_id', 1).increment('rank', 2).update('title', knex.raw('concat(title, ?)', ['!'])))
await step('update join', () => knex('posts').join('users', 'users.id', 'posts.user_id').where('users.name', 'Bob').update({ 'posts.rank': 1 }))
await step('on conflict merge', async () => [await knex('users').insert({ id: 1, name: 'Ada', extra: 'm', small: 9 }).onConflict('id').merge(['extra']), await knex('users').where('id', 1).first('extra')])
await step('on conflict ignore', () => knex('users').insert({ name: 'Ada', small: 9 }).onConflict().ignore())
await step('upsert', () => knex('couples').upsert({ a: 1, b: 1 }))
await step('duplicate', () => knex('users').insert({ name: 'ADA', small: 1 }))
await step('check', () => knex('users').where('id', 1).update({ money: 0 }))
await step('check between', () => knex('posts').where('id', 1).update({ rank: 101 }))
await step('no parent', () => knex('posts').insert({ user_id: 99, title: 'x' }))
await step('no default', () => knex('users').insert({ name: 'z' }))
await step('rollback', async () => { await knex.transaction(async t => { await t('couples').insert({ a: 9, b: 9 }); throw new Error('no') }).catch(e => e); return knex('couples').count('* as n') })
await step('savepoint', () => knex.transaction(async t => { await t('couples').insert({ a: 5, b: 5 }); await t.transaction(async u => { await u('couples').insert({ a: 6, b: 6 }); throw new Error('no') }).catch(e => e); return t('couples').count('* as n') }, { isolationLevel: 'read committed' }))
await step('locks', () => knex.transaction(async t => [await t('users').forUpdate().where('id', 1).pluck('id'), await t('users').forShare().where('id', 1).pluck('id'), await t('users').forUpdate().skipLocked().orderBy('id').pluck('id')]))
await step('stream', async () => { const out = []; for await (const r of knex('posts').select('id').orderBy('id').limit(3).stream()) out.push(r.id); return out })
await step('column info', async () => Object.entries(await knex('users').columnInfo()).sort())
await step('has', async () => [await s.hasTable('users'), await s.hasTable('nope'), await s.hasColumn('users', 'extra'), await s.hasColumn('users', 'nope')])
await step('view', () => knex('names2').orderBy('n'))
await step('delete', () => knex('posts').where('rank', '>', 20).del())
await step('delete join', () => knex('posts').join('users', 'users.id', 'posts.user_id').where('users.name', 'Cid').del())
await step('cascade', async () => [await knex('users').where('id', 2).del(), await knex('posts').count('* as n')])
await step('truncate', () => knex('posts').truncate())
await step('truncate referenced', () => knex('users').truncate())
await step('explain', async () => (await knex.raw('EXPLAIN FORMAT=JSON SELECT * FROM users'))[0].length)
await step('rollback migration', () => knex.migrate.rollback({ migrationSource: migrations }))
await step('migrate again', () => knex.migrate.up({ migrationSource: migrations }))
await step('fix keys', () => knex('users').whereIn('id', [3, 5]).update({ key: 'fixed' }))
await step('fix times', () => knex('knex_migrations').update({ migration_time: '2020-01-01' }))
await knex.destroy()
