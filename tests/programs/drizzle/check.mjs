// Drizzle: its migrator with SQL files, typed queries, relations, prepared statements.
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import mysql from 'mysql2/promise'
import { drizzle } from 'drizzle-orm/mysql2'
import { migrate } from 'drizzle-orm/mysql2/migrator'
import { relations, sql, eq, and, or, gt, inArray, like, desc, count, sum, exists, isNull, between, placeholder } from 'drizzle-orm'
import * as m from 'drizzle-orm/mysql-core'

const step = async (name, work) => {
  try { console.log(`${name}:`, JSON.stringify(await work(), (k, v) => typeof v === 'bigint' ? `${v}n` : v)) }
  catch (e) { const c = e.cause ?? e; console.log(`${name}: ${c.code ?? c.name} ${c.sqlMessage ?? c.message}`) }
}
const users = m.mysqlTable('users', {
  id: m.serial().primaryKey(), name: m.varchar({ length: 60 }).notNull().unique(), kind: m.mysqlEnum(['a', 'b']).default('a'), data: m.json(), big: m.bigint({ mode: 'bigint', unsigned: true }),
  money: m.decimal({ precision: 12, scale: 2 }), on: m.boolean().default(true), day: m.date({ mode: 'string' }), at: m.time({ fsp: 2 }), stamp: m.datetime({ fsp: 3, mode: 'string' }), made: m.timestamp({ mode: 'string' }).defaultNow().onUpdateNow(),
  bin: m.varbinary({ length: 10 }), year: m.year(), tiny: m.tinyint(), real: m.real(), dbl: m.double(), f: m.float(), txt: m.text(), up: m.varchar({ length: 60 }).generatedAlwaysAs(sql`upper(\`name\`)`, { mode: 'stored' }),
})
const posts = m.mysqlTable('posts', { id: m.int().primaryKey().autoincrement(), author: m.bigint({ mode: 'number', unsigned: true }).notNull(), title: m.varchar({ length: 100 }), rank: m.int().default(5) })
const usersRelations = relations(users, ({ many }) => ({ posts: many(posts) }))
const postsRelations = relations(posts, ({ one }) => ({ writer: one(users, { fields: [posts.author], references: [users.id] }) }))

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'drizzle'))
fs.mkdirSync(path.join(folder, 'meta'))
const entries = []
const file = (tag, text) => { fs.writeFileSync(path.join(folder, tag + '.sql'), text); entries.push({ idx: entries.length, version: '5', when: 1700000000000 + entries.length, tag, breakpoints: true }); fs.writeFileSync(path.join(folder, 'meta/_journal.json'), JSON.stringify({ version: '5', dialect: 'mysql', entries })) }
// What drizzle-kit generates of such tables.
file('0000_first', `CREATE TABLE \`users\` (
	\`id\` serial AUTO_INCREMENT NOT NULL,
	\`name\` varchar(60) NOT NULL,
	\`kind\` enum('a','b') DEFAULT 'a',
	\`data\` json,
	\`big\` bigint unsigned,
	\`money\` decimal(12,2),
	\`on\` boolean DEFAULT true,
	\`day\` date,
	\`at\` time(2),
	\`stamp\` datetime(3),
	\`made\` timestamp DEFAULT (now()) ON UPDATE CURRENT_TIMESTAMP,
	\`bin\` varbinary(10),
	\`year\` year,
	\`tiny\` tinyint,
	\`real\` real,
	\`dbl\` double,
	\`f\` float,
	\`txt\` text DEFAULT ('it''s'),
	\`up\` varchar(60) GENERATED ALWAYS AS (upper(\`name\`)) STORED,
	CONSTRAINT \`users_id\` PRIMARY KEY(\`id\`),
	CONSTRAINT \`users_name_unique\` UNIQUE(\`name\`),
	CONSTRAINT \`money_check\` CHECK(\`users\`.\`money\` > 0)
);
--> statement-breakpoint
CREATE TABLE \`posts\` (
	\`id\` int AUTO_INCREMENT NOT NULL,
	\`author\` bigint unsigned NOT NULL,
	\`title\` varchar(100),
	\`rank\` int DEFAULT 5,
	CONSTRAINT \`posts_id\` PRIMARY KEY(\`id\`)
);
--> statement-breakpoint
ALTER TABLE \`posts\` ADD CONSTRAINT \`posts_author_users_id_fk\` FOREIGN KEY (\`author\`) REFERENCES \`users\`(\`id\`) ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX \`title_idx\` ON \`posts\` (\`title\`);--> statement-breakpoint
CREATE VIEW \`names\` AS (select \`id\`, \`name\` from \`users\`);`)
const pool = mysql.createPool({ host: '127.0.0.1', port: +process.env.DB_PORT, user: 'root', database: process.env.DB_NAME, connectionLimit: 1, timezone: 'Z' })
const db = drizzle(pool, { schema: { users, posts, usersRelations, postsRelations }, mode: 'default' })

await step('migrate', () => migrate(db, { migrationsFolder: folder }))
await step('migrate once', () => migrate(db, { migrationsFolder: folder }))
await step('migrate more', () => { file('0001_more', 'ALTER TABLE `posts` MODIFY COLUMN `title` varchar(200) NOT NULL DEFAULT \'t\';--> statement-breakpoint\nALTER TABLE `posts` ADD `extra` json DEFAULT (\'{"a":1}\');--> statement-breakpoint\nALTER TABLE `posts` DROP INDEX `title_idx`;--> statement-breakpoint\nALTER TABLE `users` RENAME COLUMN `f` TO `flt`;--> statement-breakpoint\nALTER TABLE `users` DROP CONSTRAINT `money_check`;--> statement-breakpoint\nCREATE INDEX `lower_name` ON `users` ((lower(`name`)));'); return migrate(db, { migrationsFolder: folder }) })
await step('rename back', () => db.execute(sql`ALTER TABLE users RENAME COLUMN flt TO f`).then(() => 0))
await step('insert', async () => (await db.insert(users).values([{ name: 'Ada', kind: 'b', data: { a: [1, 'ü'], n: 4 }, big: 18446744073709551615n, money: '12.34', day: '2024-02-29', at: '01:02:03.45', stamp: '2024-02-29 01:02:03.456', made: '2020-01-01 00:00:00', bin: 'abc', year: 2024, tiny: -5, real: 0.5, dbl: 0.1, f: 1.25 }, { name: 'Bob', made: '2020-01-01 00:00:00' }]).$returningId()))
await step('posts', async () => (await db.insert(posts).values(Array.from({ length: 6 }, (_, i) => ({ author: 1 + i % 2, title: `t${i}`, rank: i }))))[0].affectedRows)
await step('select', () => db.select().from(users).orderBy(users.id))
await step('relational', () => db.query.users.findMany({ columns: { name: true }, with: { posts: { columns: { title: true }, orderBy: desc(posts.id), limit: 2, with: { writer: { columns: { id: true, name: true } } } } }, orderBy: users.id }))
await step('relational first', () => db.query.posts.findFirst({ with: { writer: true }, where: eq(posts.id, 2), extras: { low: sql`lower(${posts.title})`.as('low') } }))
await step('join', () => db.select({ n: users.name, c: count(), s: sum(posts.rank) }).from(users).leftJoin(posts, eq(posts.author, users.id)).groupBy(users.id).having(gt(count(), 2)).orderBy(users.id))
await step('conditions', () => db.select({ id: posts.id }).from(posts).where(or(and(like(posts.title, 't%'), between(posts.rank, 1, 2)), inArray(posts.id, [6]), isNull(posts.rank))).orderBy(posts.id))
await step('exists', () => db.select({ n: users.name }).from(users).where(exists(db.select().from(posts).where(eq(posts.author, users.id)))))
await step('with', () => { const few = db.$with('few').as(db.select({ a: posts.author, n: count().as('n') }).from(posts).groupBy(posts.author)); return db.with(few).select().from(few).orderBy(few.a) })
await step('lateral', () => { const last = db.select({ t: posts.title }).from(posts).where(eq(posts.author, users.id)).orderBy(desc(posts.id)).limit(1).as('last'); return db.select({ n: users.name, t: last.t }).from(users).leftJoinLateral(last, sql`true`).orderBy(users.id) })
await step('set operations', () => m.union(db.select({ n: users.name }).from(users), db.select({ n: posts.title }).from(posts)).orderBy(sql`1`))
await step('prepared', async () => { const p = db.select({ t: posts.title }).from(posts).where(eq(posts.id, placeholder('id'))).prepare(); return [await p.execute({ id: 1 }), await p.execute({ id: 2 })] })
await step('update', async () => (await db.update(posts).set({ rank: sql`${posts.rank} + 1` }).where(gt(posts.id, 3)))[0].changedRows)
await step('upsert', async () => (await db.insert(users).values({ id: 1, name: 'Ada' }).onDuplicateKeyUpdate({ set: { kind: 'a', name: sql`concat(values(name), '!')` } }))[0].affectedRows)
await step('ignore', async () => (await db.insert(users).ignore().values({ name: 'Bob' }))[0].affectedRows)
await step('insert select', async () => (await db.insert(posts).select(db.select({ id: sql`${posts.id} + 50`.as('id'), author: posts.author, title: posts.title, rank: posts.rank }).from(posts).where(eq(posts.id, 1))))[0].affectedRows)
await step('duplicate', () => db.insert(users).values({ name: 'bob' }))
await step('no parent', () => db.insert(posts).values({ author: 77 }))
await step('transaction', () => db.transaction(async t => { await t.update(posts).set({ rank: 0 }); await t.transaction(async n => { await n.delete(posts); n.rollback() }).catch(e => e.message); return t.$count(posts) }, { isolationLevel: 'read committed', withConsistentSnapshot: true }))
await step('for update', () => db.transaction(t => t.select({ id: users.id }).from(users).for('update', { skipLocked: true }).orderBy(users.id)))
await step('for share', () => db.transaction(t => t.select({ id: users.id }).from(users).for('share', { noWait: true }).orderBy(users.id)))
await step('hints', () => db.select({ id: users.id }).from(users, { useIndex: 'users_name_unique' }).where(eq(users.name, 'Bob')))
await step('delete with limit', async () => (await db.delete(posts).orderBy(desc(posts.id)).limit(1))[0].affectedRows)
await step('cascade', async () => [(await db.delete(users).where(eq(users.id, 1)))[0].affectedRows, await db.$count(posts)])
await pool.end()
