// TypeORM: synchronization, changes of entities, migrations, relations, query builder, trees, locks.
import 'reflect-metadata'
import typeorm from 'typeorm'

const { DataSource, EntitySchema, In, Like, Between, IsNull, Not, Raw, Brackets, TableColumn, TableIndex, TableForeignKey, TableCheck, TableUnique, Table } = typeorm
const byName = (a, b) => a.name < b.name ? -1 : 1
const step = async (name, work) => {
  try { console.log(`${name}:`, JSON.stringify(await work())) }
  catch (e) { console.log(`${name}: ${e.code ?? e.name} ${e.sqlMessage ?? e.message}`) }
}

const User = new EntitySchema({
  name: 'User', tableName: 'user',
  columns: {
    id: { type: Number, primary: true, generated: true },
    email: { type: String, unique: true, length: 100 },
    name: { type: 'varchar', length: 40, comment: "the user's name", default: 'x' },
    role: { type: 'enum', enum: ['admin', 'guest'], default: 'guest' },
    flags: { type: 'set', enum: ['a', 'b', 'c'], nullable: true },
    data: { type: 'json', nullable: true },
    tags: { type: 'simple-array', nullable: true },
    balance: { type: 'decimal', precision: 12, scale: 3, default: 0 },
    big: { type: 'bigint', unsigned: true, nullable: true },
    on: { type: 'boolean', default: true },
    point: { type: 'double', nullable: true },
    bits: { type: 'bit', nullable: true },
    year: { type: 'year', nullable: true },
    day: { type: 'date', nullable: true },
    at: { type: 'time', precision: 3, nullable: true },
    bin: { type: 'varbinary', length: 20, nullable: true },
    long: { type: 'longtext', nullable: true, charset: 'utf8mb4', collation: 'utf8mb4_unicode_ci' },
    upper: { type: 'varchar', length: 100, asExpression: 'upper(`email`)', generatedType: 'STORED' },
    created: { type: 'datetime', createDate: true },
    updated: { type: 'timestamp', updateDate: true, precision: 6 },
    deleted: { type: 'datetime', deleteDate: true },
    version: { type: Number, version: true },
  },
  indices: [{ name: 'by_name', columns: ['name', 'role'] }, { name: 'by_day', columns: ['day'], unique: false }],
  relations: {
    posts: { type: 'one-to-many', target: 'Post', inverseSide: 'author', cascade: true },
    profile: { type: 'one-to-one', target: 'Profile', joinColumn: true, cascade: true, nullable: true, onDelete: 'SET NULL' },
  },
})
const Profile = new EntitySchema({
  name: 'Profile', columns: { id: { type: 'uuid', primary: true, generated: 'uuid' }, bio: { type: 'text' } },
})
const Post = new EntitySchema({
  name: 'Post',
  columns: {
    id: { type: Number, primary: true, generated: true, unsigned: true },
    title: { type: String }, body: { type: 'text', nullable: true }, score: { type: 'int', width: 5, default: () => '(1 + 2)' },
  },
  relations: {
    author: { type: 'many-to-one', target: 'User', inverseSide: 'posts', onDelete: 'CASCADE', onUpdate: 'CASCADE', nullable: false },
    tags: { type: 'many-to-many', target: 'Tag', joinTable: true, cascade: true, inverseSide: 'posts' },
  },
  uniques: [{ columns: ['title', 'author'] }],
})
const Tag = new EntitySchema({
  name: 'Tag', columns: { name: { type: String, primary: true, length: 30 } },
  relations: { posts: { type: 'many-to-many', target: 'Post', inverseSide: 'tags' } },
})
const Node = new EntitySchema({
  name: 'Node', trees: [{ type: 'closure-table' }],
  columns: { id: { type: Number, primary: true, generated: true }, name: { type: String } },
  relations: {
    parent: { type: 'many-to-one', target: 'Node', treeParent: true, inverseSide: 'children', nullable: true },
    children: { type: 'one-to-many', target: 'Node', treeChildren: true, inverseSide: 'parent' },
  },
})
const Active = new EntitySchema({
  name: 'Active', type: 'view', expression: 'SELECT u.id AS id, u.name AS name, COUNT(p.id) AS posts FROM user u LEFT JOIN post p ON p.authorId = u.id GROUP BY u.id',
  columns: { id: { type: Number }, name: { type: String }, posts: { type: Number } },
})

class First1700000000000 {
  name = 'First1700000000000'
  async up(q) {
    await q.createTable(new Table({
      name: 'm', columns: [
        { name: 'id', type: 'int', isPrimary: true, isGenerated: true, generationStrategy: 'increment' },
        { name: 'a', type: 'varchar', length: '20', isNullable: true }, { name: 'u', type: 'int', isNullable: true },
      ], indices: [{ columnNames: ['a'] }],
    }), true)
    await q.addColumns('m', [new TableColumn({ name: 'b', type: 'int', default: 3, comment: "b's" }), new TableColumn({ name: 'c', type: 'varchar', asExpression: "concat(`a`,'-')", generatedType: 'VIRTUAL', length: '30' })])
    await q.createForeignKey('m', new TableForeignKey({ columnNames: ['u'], referencedTableName: 'user', referencedColumnNames: ['id'], onDelete: 'SET NULL' }))
    await q.createIndex('m', new TableIndex({ name: 'mi', columnNames: ['b', 'a'], isUnique: true }))
    await q.renameColumn('m', 'b', 'bb')
    await q.changeColumn('m', 'bb', new TableColumn({ name: 'bb', type: 'bigint', isNullable: true }))
    await q.renameTable('m', 'mm')
    await q.changeTableComment('mm', "m's comment")
    await q.query("INSERT INTO mm (a, bb) VALUES ('x', 1), ('y', NULL)")
  }
  async down(q) {
    await q.dropIndex('mm', 'mi')
    await q.dropColumn('mm', 'u')
    await q.dropTable('mm')
  }
}

const open = (entities, more = {}) => new DataSource({
  type: 'mysql', host: '127.0.0.1', port: +process.env.DB_PORT, username: 'root', database: process.env.DB_NAME, entities,
  charset: 'utf8mb4', timezone: 'Z', poolSize: 1, supportBigNumbers: true, bigNumberStrings: false, migrations: [First1700000000000], ...more,
}).initialize()

const all = [User, Profile, Post, Tag, Node, Active]
let db
await step('connect', async () => { db = await open(all); return db.isInitialized })
await step('schema as sql', async () => (await db.driver.createSchemaBuilder().log()).upQueries.map(q => q.query))
await step('synchronize', () => db.synchronize())
await step('nothing left to do', async () => (await db.driver.createSchemaBuilder().log()).upQueries.map(q => q.query))
const users = () => db.getRepository('User'), posts = () => db.getRepository('Post')
const plain = { where: {}, order: { id: 'ASC' }, select: { id: true, email: true, name: true, role: true, flags: true, data: true, tags: true, balance: true, big: true, on: true, point: true, bits: true, year: true, day: true, at: true, bin: true, long: true, upper: true, version: true } }
await step('save', async () => {
  await db.getRepository('Profile').insert({ id: '00000000-0000-4000-8000-000000000001', bio: 'b' })
  await users().save([
    { email: 'a@x', name: 'Ada', role: 'admin', flags: ['a', 'c'], data: { x: [1, 'ü', null] }, tags: ['t', 'u'], balance: '12.345', big: '18446744073709551615', point: 1.25, bits: Buffer.from([1]), year: 2024, day: '2024-02-29', at: '12:34:56.789', bin: Buffer.from('ab'), long: 'é'.repeat(100),
      profile: { id: '00000000-0000-4000-8000-000000000001' }, posts: [{ title: 'one', tags: [{ name: 'red' }, { name: 'blue' }] }, { title: 'two', tags: [] }] },
    { email: 'b@x', name: 'Bob', posts: [{ title: 'three', body: 'text' }] }, { email: 'c@x' },
  ])
  return users().find(plain)
})
await step('relations', () => posts().find({ select: { id: true, title: true, score: true, author: { id: true, name: true }, tags: true }, relations: { author: true, tags: true }, order: { id: 'ASC', tags: { name: 'ASC' } } }))
await step('take with joins', () => posts().find({ select: { id: true }, relations: { tags: true }, take: 2, skip: 1, order: { id: 'DESC' } }))
await step('operators', () => users().find({ select: { id: true }, where: [{ name: Like('A%') }, { id: In([2, 9]), role: Not('admin') }, { big: IsNull(), id: Between(3, 5) }, { name: Raw(a => `${a} REGEXP '^z'`) }], order: { id: 'ASC' } }))
await step('find and count', async () => (await users().findAndCount({ take: 1, order: { id: 'ASC' } }))[1])
await step('builder', () => db.createQueryBuilder('User', 'u').select('u.name', 'n').addSelect('COUNT(p.id)', 'c').leftJoin('u.posts', 'p').where(new Brackets(q => q.where('u.id > :a', { a: 0 }).orWhere('u.name = :b', { b: 'x' }))).groupBy('u.id').having('c >= :h', { h: 0 }).orderBy('u.id').getRawMany())
await step('subquery', () => db.createQueryBuilder('Post', 'p').where(q => 'p.authorId IN ' + q.subQuery().select('u.id').from('User', 'u').where('u.role = :r').getQuery(), { r: 'admin' }).select('p.title').orderBy('p.id').getMany())
await step('cte', () => db.createQueryBuilder().addCommonTableExpression('SELECT id, name FROM user WHERE id < 3', 'few').select('few.name', 'name').from('few', 'few').orderBy('few.id').getRawMany())
await step('update', async () => (await users().update({ id: 2 }, { name: 'Bobby', balance: () => 'balance + 1' })).affected)
await step('version', async () => { const u = await users().findOneBy({ id: 2 }); u.name = 'Rob'; await users().save(u); return (await users().findOneBy({ id: 2 })).version })
await step('upsert', async () => { await users().upsert([{ email: 'a@x', name: 'Upserted' }, { email: 'd@x', name: 'New' }], ['email']); return (await users().find({ order: { id: 'ASC' } })).map(u => [u.id, u.name]) })
await step('or ignore', async () => (await db.createQueryBuilder().insert().into('Tag').values([{ name: 'red' }, { name: 'green' }]).orIgnore().execute()).raw.affectedRows)
await step('increment', async () => { await posts().increment({ id: 1 }, 'score', 10); return (await posts().findOneBy({ id: 1 })).score })
await step('soft delete', async () => { await users().softDelete(3); return [await users().count(), await users().count({ withDeleted: true })] })
await step('duplicate', () => users().insert({ email: 'a@x' }))
await step('bad enum', () => users().insert({ email: 'e@x', role: 'nope' }))
await step('too long', () => users().insert({ email: 'f@x', name: 'n'.repeat(41) }))
await step('no parent', () => db.query('INSERT INTO post (title, authorId) VALUES (?, ?)', ['t', 999]))
await step('rollback', async () => {
  await db.transaction('SERIALIZABLE', async m => { await m.insert('Tag', { name: 'gone' }); throw new Error('no') }).catch(e => e)
  return db.getRepository('Tag').count({ where: { name: 'gone' } })
})
await step('nested', () => db.transaction(async m => {
  await m.insert('Tag', { name: 'outer' })
  await m.transaction(async n => { await n.insert('Tag', { name: 'inner' }); throw new Error('no') }).catch(e => e)
  return (await m.find('Tag', { order: { name: 'ASC' } })).map(t => t.name)
}))
for (const mode of ['pessimistic_write', 'pessimistic_read', 'pessimistic_partial_write', 'pessimistic_write_or_fail', 'for_no_key_update']) {
  await step(mode, () => db.transaction(async m => (await m.createQueryBuilder('User', 'u').setLock(mode).where('u.id = 1').getOne()).name))
}
await step('tree', async () => {
  const r = db.getTreeRepository('Node')
  const a = await r.save({ name: 'a' }), b = await r.save({ name: 'b', parent: a }), c = await r.save({ name: 'c', parent: b })
  return [await r.countDescendants(a), (await r.findAncestors(c)).map(n => n.name), await r.findDescendantsTree(a)]
})
await step('view', () => db.getRepository('Active').find({ order: { id: 'ASC' } }))
await step('delete with cascade', async () => [(await users().delete(1)).affected, await posts().count(), await db.query('SELECT COUNT(*) AS n FROM post_tags_tag')])
await step('migrations', async () => (await db.runMigrations()).map(m => m.name))
await step('tables', async () => { const q = db.createQueryRunner(); const t = await q.getTables(['user', 'post', 'mm', 'node_closure', 'active'].map(n => `${process.env.DB_NAME}.${n}`)); await q.release(); return t.map(x => ({ ...x, database: 0, columns: x.columns.sort(byName), indices: x.indices.sort(byName), uniques: x.uniques.sort(byName), foreignKeys: x.foreignKeys.sort(byName), checks: x.checks.sort(byName) })).filter(t => !t.name.endsWith('active')) })
await step('changed entities', async () => {
  await db.destroy()
  const u = new EntitySchema({ ...User.options, columns: { ...User.options.columns, name: { type: 'varchar', length: 60, nullable: true }, role: { type: 'enum', enum: ['admin', 'guest', 'owner'], default: 'owner' }, balance: { type: 'decimal', precision: 14, scale: 2, default: 5 }, extra: { type: 'json', nullable: true }, tags: undefined, big: { type: 'bigint', nullable: true } }, indices: [{ name: 'by_name', columns: ['name'] }] })
  delete u.options.columns.tags
  const p = new EntitySchema({ ...Post.options, relations: { ...Post.options.relations, author: { ...Post.options.relations.author, onDelete: 'RESTRICT' } } })
  db = await open([u, Profile, p, Tag, Node, Active])
  const sql = (await db.driver.createSchemaBuilder().log()).upQueries.map(q => q.query).sort()
  await db.synchronize()
  return [sql, (await db.driver.createSchemaBuilder().log()).upQueries.map(q => q.query)]
})
await step('undo migration', () => db.undoLastMigration())
await step('stream', async () => { const out = []; for await (const r of await db.createQueryBuilder('Tag', 't').orderBy('t.name').stream()) out.push(r); return out })
await step('clear referenced', () => users().clear())
await step('fix times', () => db.query("UPDATE user SET created = '2020-01-01', updated = '2020-01-01', deleted = NULL").then(r => r.affectedRows))
await step('drop and synchronize', async () => { const d = await open(all, { database: process.env.DB_NAME, dropSchema: false }); const r = (await d.driver.createSchemaBuilder().log()).upQueries.length; await d.destroy(); return r })
await db.destroy()
