-- A table used as a queue: each event appends a row, finds the first one and deletes it.
--
-- Options: --backlog rows that wait all the time, --claim 'plain' (two statements) or 'skip-locked' (in a transaction).
sysbench.cmdline.options = {
   backlog = {"Rows that wait in the queue", 100},
   claim = {"plain or skip-locked", "plain"},
}

function connect()
   drv = sysbench.sql.driver()
   con = drv:connect()
end

function prepare()
   connect()
   con:query("DROP TABLE IF EXISTS jobs")
   con:query("CREATE TABLE jobs (id BIGINT AUTO_INCREMENT PRIMARY KEY, state INT NOT NULL, payload VARCHAR(120) NOT NULL, " ..
             "KEY by_state (state)) ENGINE=" .. (os.getenv("QUEUE_ENGINE") or "innodb"))
   con:bulk_insert_init("INSERT INTO jobs (state, payload) VALUES")
   for _ = 1, sysbench.opt.backlog do
      con:bulk_insert_next("(1, '" .. string.rep("x", 100) .. "')")
   end
   con:bulk_insert_done()
end

function thread_init()
   connect()
   skips = sysbench.opt.claim == "skip-locked"
   first = "SELECT id FROM jobs ORDER BY id LIMIT 1" .. (skips and " FOR UPDATE SKIP LOCKED" or "")
   append = "INSERT INTO jobs (state, payload) VALUES (1, '" .. string.rep("y", 100) .. "')"
end

function thread_done()
   con:disconnect()
end

function event()
   con:query(append)
   if skips then con:query("BEGIN") end
   local row = con:query(first):fetch_row()
   if row then con:query("DELETE FROM jobs WHERE id = " .. row[1]) end
   if skips then con:query("COMMIT") end
end
