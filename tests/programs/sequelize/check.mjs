// Sequelize: sync, associations, finders, transactions, changes of the schema, introspection.
import { Sequelize, DataTypes, Op, QueryTypes, literal, fn, col } from 'sequelize'

const step = async (name, work) => {
  try { console.log(`${name}:`, JSON.stringify(await work())) }
  catch (e) { console.log(`${name}: ${e.name} ${e.parent?.code ?? ''} ${e.parent?.sqlMessage ?? e.message}`) }
}
const db = new Sequelize(process.env.DB_NAME, 'root', '', { host: '127.0.0.1', port: +process.env.DB_PORT, dialect: 'mysql', logging: false, pool: { max: 1 }, define: { timestamps: false } })
const User = db.define('User', {
  id: { type: DataTypes.INTEGER.UNSIGNED, primaryKey: true, autoIncrement: true },
  name: { type: DataTypes.STRING(40), allowNull: false, unique: 'name_unique', comment: "it's" },
  email: { type: DataTypes.STRING, unique: true, validate: { isEmail: true } },
  role: { type: DataTypes.ENUM('a', 'b'), defaultValue: 'a' },
  data: DataTypes.JSON, price: DataTypes.DECIMAL(10, 2), big: DataTypes.BIGINT, f: DataTypes.FLOAT, d: DataTypes.DOUBLE(12, 4),
  on: { type: DataTypes.BOOLEAN, defaultValue: false }, key: DataTypes.UUID, blob: DataTypes.BLOB('medium'), text: DataTypes.TEXT('tiny'),
  day: DataTypes.DATEONLY, at: DataTypes.TIME, stamp: DataTypes.DATE(6), bin: DataTypes.STRING(10, true), tiny: DataTypes.TINYINT.UNSIGNED.ZEROFILL,
  virtual: { type: DataTypes.VIRTUAL, get() { return this.name + '!' } }, ch: DataTypes.CHAR(3), real: DataTypes.REAL,
}, { tableName: 'users', indexes: [{ fields: ['role', { name: 'day', order: 'DESC' }] }, { fields: [{ name: 'text', length: 5 }], name: 'text_part' }], comment: 'the users', charset: 'utf8mb4', collate: 'utf8mb4_unicode_ci' })
const Task = db.define('Task', { title: DataTypes.STRING, done: DataTypes.BOOLEAN, rank: DataTypes.INTEGER }, { paranoid: true, timestamps: true, createdAt: false, updatedAt: false })
const Tag = db.define('Tag', { name: { type: DataTypes.STRING(30), primaryKey: true } })
User.hasMany(Task, { foreignKey: { name: 'userId', allowNull: false }, onDelete: 'CASCADE', onUpdate: 'CASCADE' })
Task.belongsTo(User, { foreignKey: 'userId' })
Task.belongsTo(Task, { as: 'parent', onDelete: 'SET NULL' })
Task.belongsToMany(Tag, { through: 'TaskTags' })
Tag.belongsToMany(Task, { through: 'TaskTags' })
const q = db.getQueryInterface()

await step('authenticate', () => db.authenticate())
await step('version', async () => typeof await db.databaseVersion())
await step('sync', async () => { await db.sync(); return q.showAllTables() })
await step('create', async () => {
  const u = await User.create({ name: 'Ada', email: 'a@x.de', role: 'b', data: { a: [1, { b: 'ü' }], n: 5 }, price: '12.34', big: '9007199254740993', f: 1.5, d: 2.3456, on: true, key: '00000000-0000-4000-8000-000000000001', blob: Buffer.from([0, 255]), text: "it's", day: '2024-02-29', at: '23:59:58', stamp: new Date(Date.UTC(2024, 1, 29, 1, 2, 3, 456)), bin: Buffer.from('xy'), tiny: 7, ch: 'abc', real: 0.1 })
  await User.bulkCreate([{ name: 'Bob', email: 'b@x.de', data: { n: 7 } }, { name: 'Cid', email: 'c@x.de' }])
  await u.createTask({ title: 't1', done: true, rank: 1, Tags: [{ name: 'red' }] }, { include: Tag })
  await Task.bulkCreate([{ title: 't2', userId: 1, rank: 2, parentId: 1 }, { title: 't3', userId: 2, rank: 3 }])
  return User.findAll({ order: ['id'] })
})
await step('include', () => User.findAll({ include: [{ model: Task, include: [Tag, 'parent'] }], order: ['id', [Task, 'id']] }))
await step('limit with include', () => User.findAndCountAll({ attributes: ['id'], include: [{ model: Task, required: true }], limit: 1, order: [['id', 'DESC']], distinct: true }))
await step('operators', () => User.findAll({ attributes: ['name'], where: { [Op.or]: [{ name: { [Op.like]: 'A%' } }, { id: { [Op.between]: [2, 2] } }, { name: { [Op.regexp]: '^C' } }], email: { [Op.notIn]: ['z'] } }, order: ['name'] }))
await step('json', () => User.findAll({ attributes: ['name', [db.json('data.n'), 'n']], where: { 'data.n': { [Op.gt]: 4 } }, order: [[db.json('data.n'), 'DESC']] }))
await step('json nested', () => User.count({ where: { data: { a: { [Op.ne]: null } } } }))
await step('aggregate', async () => [await Task.sum('rank'), await Task.max('rank'), await Task.findAll({ attributes: ['userId', [fn('COUNT', col('id')), 'n']], group: ['userId'], having: literal('n > 0'), order: ['userId'], raw: true })])
await step('update', () => User.update({ price: literal('COALESCE(price, 0) + 1') }, { where: { id: [1, 2] } }))
await step('increment', async () => { await Task.increment({ rank: 5 }, { where: { id: 1 } }); return (await Task.findByPk(1)).rank })
await step('upsert', () => User.upsert({ id: 2, name: 'Rob', email: 'b@x.de' }))
await step('bulk upsert', async () => { await User.bulkCreate([{ id: 2, name: 'Bert' }, { id: 9, name: 'Dee' }], { updateOnDuplicate: ['name'] }); return User.findAll({ attributes: ['id', 'name'], order: ['id'], raw: true }) })
await step('ignore', async () => (await Tag.bulkCreate([{ name: 'red' }, { name: 'blue' }], { ignoreDuplicates: true })).length)
await step('find or create', async () => (await User.findOrCreate({ where: { name: 'Eve' }, defaults: { email: 'e@x.de' } }))[1])
await step('duplicate', () => User.create({ name: 'Ada', email: 'z@x.de' }))
await step('no parent', () => Task.create({ title: 'x', userId: 99 }))
await step('null', () => db.query('INSERT INTO users (name) VALUES (NULL)'))
await step('paranoid', async () => { await Task.destroy({ where: { id: 2 } }); return [await Task.count(), await Task.count({ paranoid: false }), await Task.restore({ where: { id: 2 } })] })
await step('transaction', () => db.transaction({ isolationLevel: 'SERIALIZABLE' }, async t => { const u = await User.findByPk(1, { lock: t.LOCK.UPDATE, transaction: t }); const s = await User.findAll({ lock: t.LOCK.SHARE, skipLocked: true, transaction: t, attributes: ['id'], order: ['id'] }); return [u.name, s.length] }))
await step('rollback', async () => { await db.transaction(async t => { await Tag.create({ name: 'gone' }, { transaction: t }); throw new Error('no') }).catch(e => e); return Tag.count() })
await step('savepoint', () => db.transaction(async t => { await Tag.create({ name: 'kept' }, { transaction: t }); await db.transaction({ transaction: t }, async s => { await Tag.create({ name: 'lost' }, { transaction: s }); throw new Error('x') }).catch(e => e); return Tag.count({ transaction: t }) }))
await step('replacements', () => db.query('SELECT :a AS a, :b AS b, ? IS NULL', { replacements: { a: "it's", b: [1, 2] }, type: QueryTypes.SELECT }).catch(() => db.query('SELECT :a AS a, 1 IN (:b) AS b', { replacements: { a: "it's", b: [1, 2] }, type: QueryTypes.SELECT })))
await step('bind', () => db.query('SELECT $1 AS a, $2 + 1 AS b, $3 AS c', { bind: ['x', 5, null], type: QueryTypes.SELECT }))
await step('describe', () => q.describeTable('users'))
await step('indexes', () => q.showIndex('users'))
await step('foreign keys', async () => (await q.getForeignKeyReferencesForTable('Tasks')).map(({ constraint_schema, constraintSchema, constraintCatalog, tableSchema, tableCatalog, referencedTableSchema, referencedTableCatalog, ...r }) => r))
await step('all foreign keys', () => q.getForeignKeysForTables(['Tasks', 'TaskTags']))
await step('add column', () => q.addColumn('users', 'age', { type: DataTypes.INTEGER, allowNull: false, defaultValue: 3, after: 'name', comment: 'years' }))
await step('add column first', () => q.addColumn('users', 'zero', { type: DataTypes.STRING(5), first: true }))
// MySQL copies the table here, Esker changes it in place: the counts differ.
await step('change column', () => q.changeColumn('users', 'age', { type: DataTypes.BIGINT, allowNull: true, defaultValue: 9 }).then(() => 0))
await step('change to enum', () => q.changeColumn('users', 'role', { type: DataTypes.ENUM('a', 'b', 'c'), allowNull: false, defaultValue: 'c' }).then(() => 0))
await step('rename column', () => q.renameColumn('users', 'age', 'years'))
await step('add index', () => q.addIndex('users', ['years', 'name'], { unique: true, name: 'yn', type: 'UNIQUE' }))
await step('remove index', () => q.removeIndex('users', 'yn'))
await step('add reference', () => q.addColumn('users', 'bossId', { type: DataTypes.INTEGER.UNSIGNED, references: { model: 'users', key: 'id' }, onDelete: 'SET NULL', onUpdate: 'CASCADE' }))
await step('constraints', async () => { await q.addConstraint('users', { type: 'unique', fields: ['email', 'years'], name: 'ey' }); await q.addConstraint('users', { type: 'check', fields: ['years'], where: { years: { [Op.gt]: 0 } }, name: 'grown' }).catch(e => console.log('   ', e.message)); await q.removeConstraint('users', 'ey') })
await step('show constraints', async () => (await q.showConstraint('users')).filter(c => c.constraintSchema === process.env.DB_NAME).map(c => [c.constraintName, c.constraintType, c.tableName].join()).sort())
await step('remove referencing column', () => q.removeColumn('users', 'bossId'))
await step('remove column', () => q.removeColumn('users', 'zero'))
await step('rename table', async () => { await q.renameTable('TaskTags', 'links'); await q.renameTable('links', 'TaskTags') })
await step('alter', async () => { Task.rawAttributes.title.type = DataTypes.STRING(300); Task.rawAttributes.extra = { type: DataTypes.JSON, fieldName: 'extra', field: 'extra' }; await Task.sync({ alter: true }); return q.describeTable('Tasks') })
await step('drop referenced', () => db.query('DROP TABLE users'))
await step('truncate referenced', () => db.query('TRUNCATE users'))
await step('cascade', async () => [await User.destroy({ where: { id: 1 } }), await Task.count({ paranoid: false }), await db.query('SELECT COUNT(*) AS n FROM TaskTags', { type: QueryTypes.SELECT })])
await step('delete with limit', () => Tag.destroy({ where: { name: { [Op.ne]: 'x' } }, limit: 1 }))
await step('fix times', () => db.query('UPDATE Tasks SET deletedAt = NULL').then(r => r[0].affectedRows))
await step('databases', async () => (await q.showAllSchemas()).includes(process.env.DB_NAME))
await step('force', async () => { await Tag.sync({ force: true }) })
await db.close()
