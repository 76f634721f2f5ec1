// MikroORM: the schema generator and its comparison, migrations, unit of work, query builder.
import { MikroORM, raw, EntitySchema, ReferenceKind, LockMode } from '@mikro-orm/mysql'
import { Migration, Migrator } from '@mikro-orm/migrations'

const step = async (name, work) => {
  try { console.log(`${name}:`, JSON.stringify(await work())) }
  catch (e) { console.log(`${name}: ${e.code ?? e.name} ${e.sqlMessage ?? e.message}`) }
}
const author = {
  name: 'Author', tableName: 'author', comment: "the author's",
  properties: {
    id: { type: 'number', primary: true }, name: { type: 'string', length: 50, unique: true }, age: { type: 'smallint', nullable: true, check: 'age > 0' }, email: { type: 'string', default: 'x@y', comment: 'mail' }, kind: { enum: true, type: 'string', items: ['a', 'b'], default: 'a' },
    data: { type: 'json', nullable: true }, money: { type: 'decimal', precision: 10, scale: 2, nullable: true }, big: { type: 'bigint', nullable: true, unsigned: true }, born: { type: 'date', nullable: true }, at: { type: 'time', nullable: true }, seen: { type: 'datetime', length: 6, nullable: true }, on: { type: 'boolean', default: false }, key: { type: 'uuid', nullable: true }, blob: { type: 'blob', nullable: true }, text: { type: 'text', nullable: true }, f: { type: 'double', nullable: true }, tags: { type: 'string[]', nullable: true }, made: { type: 'datetime', defaultRaw: 'CURRENT_TIMESTAMP' }, up: { type: 'string', length: 60, generated: '(upper(`name`)) stored', nullable: true }, version: { type: 'number', version: true },
    books: { kind: ReferenceKind.ONE_TO_MANY, entity: 'Book', mappedBy: 'author', orphanRemoval: true }, favourite: { kind: ReferenceKind.MANY_TO_ONE, entity: 'Book', nullable: true, deleteRule: 'set null' },
  },
  indexes: [{ properties: ['email', 'age'], name: 'email_age' }],
}
const book = {
  name: 'Book', tableName: 'book',
  properties: { id: { type: 'number', primary: true, unsigned: false }, title: { type: 'string' }, price: { type: 'double', default: 0 }, author: { kind: ReferenceKind.MANY_TO_ONE, entity: 'Author', deleteRule: 'cascade', updateRule: 'restrict' }, tags: { kind: ReferenceKind.MANY_TO_MANY, entity: 'Tag', pivotTable: 'book_tags' } },
  uniques: [{ properties: ['title', 'author'] }],
}
const tag = { name: 'Tag', properties: { id: { type: 'number', primary: true }, name: { type: 'string', length: 20 } } }
const pair = { name: 'Pair', properties: { left: { kind: ReferenceKind.MANY_TO_ONE, entity: 'Author', primary: true }, right: { kind: ReferenceKind.MANY_TO_ONE, entity: 'Book', primary: true }, since: { type: 'date', nullable: true } } }
const schemas = list => list.map(o => new EntitySchema(structuredClone(o)))

class M1 extends Migration {
  static name = 'Migration20240101000000'
  up() { this.addSql('create table `m` (`id` int unsigned not null auto_increment primary key, `a` varchar(10) null) default character set utf8mb4 engine = InnoDB;'); this.addSql('alter table `m` add `author_id` int unsigned null;'); this.addSql('alter table `m` add constraint `m_fk` foreign key (`author_id`) references `author` (`id`) on update cascade on delete set null;') }
  down() { this.addSql('drop table if exists `m`;') }
}
const open = list => MikroORM.init({ entities: schemas(list), dbName: process.env.DB_NAME, host: '127.0.0.1', port: +process.env.DB_PORT, user: 'root', timezone: 'Z', extensions: [Migrator], pool: { min: 1, max: 1 }, migrations: { migrationsList: [{ name: 'M1', class: M1 }], snapshot: false }, discovery: { warnWhenNoEntities: false, requireEntitiesArray: true }, allowGlobalContext: true })

let orm
await step('open', async () => { orm = await open([author, book, tag, pair]); return orm.isConnected() })
const generator = () => orm.schema
await step('create sql', () => generator().getCreateSchemaSQL())
await step('create', () => generator().createSchema())
await step('nothing to update', () => generator().getUpdateSchemaSQL())
await step('insert', async () => {
  const em = orm.em.fork()
  const a = em.create('Author', { name: 'Ada', age: 30, kind: 'b', data: { x: [1, 'ü'] }, money: '10.50', big: '9007199254740993', born: '2024-02-29', at: '12:00:00', seen: new Date('2024-02-29T01:02:03.456Z'), on: true, key: '00000000-0000-4000-8000-000000000001', blob: Buffer.from([0, 255]), text: "it's", f: 0.1, tags: ['p', 'q'], made: new Date('2020-01-01T00:00:00Z') })
  for (const t of ['one', 'two', 'three']) em.create('Book', { title: t, price: t.length, author: a, tags: [em.create('Tag', { name: t + '!' })] })
  em.create('Author', { name: 'Bob', made: new Date('2020-01-01T00:00:00Z') })
  await em.flush()
  a.favourite = a.books[0]
  await em.flush()
  return em.fork().find('Author', {}, { populate: ['books.tags', 'favourite'], orderBy: { id: 1, books: { id: 1 } } })
})
await step('conditions', async () => (await orm.em.fork().find('Book', { $or: [{ title: { $like: 't%' } }, { price: { $gte: 100 } }], author: { name: 'Ada' } }, { orderBy: { title: 'desc' } })).map(b => b.title))
await step('json', async () => (await orm.em.fork().find('Author', { data: { x: { $ne: null } } })).map(b => b.name))
await step('update', async () => { const em = orm.em.fork(); const a = await em.findOne('Author', { name: 'Ada' }); a.age = 31; a.data.x.push(9); await em.flush(); return [a.version, a.age] })
await step('optimistic', async () => { const em = orm.em.fork(); const a = await em.findOne('Author', { name: 'Ada' }, { lockMode: LockMode.OPTIMISTIC, lockVersion: 1 }); return a.name })
await step('batch update', async () => { const em = orm.em.fork(); const books = await em.find('Book', {}, { orderBy: { id: 1 } }); books.forEach((b, i) => { b.price = i; b.title += i }); await em.flush(); return (await em.fork().find('Book', {}, { orderBy: { id: 1 } })).map(b => [b.title, b.price]) })
await step('upsert', async () => (await orm.em.fork().upsert('Author', { name: 'Bob', age: 5 })).id)
await step('upsert many', async () => (await orm.em.fork().upsertMany('Author', [{ name: 'Bob', age: 6 }, { name: 'Cid', age: 7 }])).length)
await step('builder', () => orm.em.fork().createQueryBuilder('Book', 'b').select(['b.author', raw('count(*) as n')]).groupBy('b.author').having('n > 1').execute())
await step('raw update', () => orm.em.fork().nativeUpdate('Author', { name: 'Cid' }, { age: 8 }))
await step('locks', () => orm.em.fork().transactional(async em => { const out = []; for (const m of [LockMode.PESSIMISTIC_READ, LockMode.PESSIMISTIC_WRITE, LockMode.PESSIMISTIC_PARTIAL_WRITE, LockMode.PESSIMISTIC_WRITE_OR_FAIL]) out.push((await em.findOne('Author', 1, { lockMode: m, refresh: true })).name); return out }))
await step('nested', async () => { await orm.em.fork().transactional(async em => { em.create('Tag', { name: 'kept' }); await em.flush(); await em.transactional(async n => { n.create('Tag', { name: 'lost' }); await n.flush(); throw new Error('x') }).catch(e => e) }); return orm.em.fork().count('Tag') })
await step('duplicate', () => orm.em.fork().insert('Author', { name: 'Ada' }))
await step('check', () => orm.em.fork().insert('Author', { name: 'Neg', age: -1 }))
await step('no parent', () => orm.em.fork().insert('Book', { title: 'x', author: 99 }))
await step('null', () => orm.em.getConnection().execute('insert into author (name) values (null)'))
await step('remove', async () => { const em = orm.em.fork(); const a = await em.findOne('Author', { name: 'Ada' }, { populate: ['books'] }); a.books.remove(a.books[2]); await em.flush(); return em.fork().count('Book') })
await step('migrate', async () => (await orm.migrator.up()).map(m => m.name))
await step('changed', async () => {
  await orm.close()
  const a = structuredClone(author); delete a.properties.tags; a.properties.age = { type: 'integer', default: 1 }; a.properties.name.length = 70; a.properties.extra = { type: 'json', nullable: true }; a.indexes = [{ properties: ['email'] }]; a.properties.kind.items.push('c')
  a.properties.up.generated = '(lower(`name`)) virtual'
  const b = structuredClone(book); b.properties.author.deleteRule = 'no action'; b.properties.isbn = { type: 'string', length: 13, nullable: true, unique: true }
  orm = await open([a, b, tag, pair])
  const sql = await orm.schema.getUpdateSchemaSQL({ safe: false, dropTables: false })
  await orm.schema.updateSchema({ dropTables: false })
  return [sql, await orm.schema.getUpdateSchemaSQL({ dropTables: false })]
})
await step('migrate down', async () => (await orm.migrator.down()).map(m => m.name))
await step('cascade', async () => orm.em.fork().nativeDelete('Author', { name: 'Ada' }))
await step('drop sql', () => orm.schema.getDropSchemaSQL())
await step('clear', () => orm.schema.clearDatabase())
await step('fix times', () => orm.em.getConnection().execute('delete from mikro_orm_migrations').then(r => r.affectedRows))
await orm.close()
