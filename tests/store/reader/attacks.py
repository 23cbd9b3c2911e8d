"""Statements that a SQL tool must survive, shared by the tests of its parts."""

NUMBERS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"

ATTACKS = (
    "ATTACH 'other.db' AS o", "VACUUM INTO 'out.db'", "VACUUM", "REINDEX", "ANALYZE", "BEGIN EXCLUSIVE",
    "SAVEPOINT a", "PRAGMA journal_mode=DELETE", "PRAGMA writable_schema=ON", "PRAGMA query_only=0",
    "DELETE FROM messages", "DROP TABLE messages", "INSERT INTO messages_fts(messages_fts) VALUES ('rebuild')",
    "WITH x AS (SELECT 1) DELETE FROM messages", "WITH x AS (SELECT 1) INSERT INTO lines SELECT 1",
    "WITH x AS (SELECT 1) REPLACE INTO lines VALUES (1,1,1,'a','b')", "CREATE TEMP TABLE t(x)",
    "CREATE TEMP VIEW v AS SELECT 1", "SELECT 1; DELETE FROM messages", "SELECT 1;;SELECT 2", "/**/ATTACH 'x' AS y",
    "--\nATTACH 'x' AS y", "EXPLAIN SELECT 1", "SELECT * FROM pragma_database_list",
    "SELECT * FROM pragma_table_info('messages')", "SELECT * FROM pragma_integrity_check", "SELECT load_extension('x')",
    "SELECT * FROM dbstat", "SELECT fts3_tokenizer('x')", "SELECT sqlite_log(1, 'x')", "SELECT fts5(x'00')",
    "SELECT * FROM carray(1, 2, 'int32')", "SELECT * FROM sqlite_temp_master", "SELECT * FROM temp.sqlite_master",
    "VALUES (1)", "", "   ", ";", "'SELECT'", "SELECT '", "SELECT /* never closed", "SELECT [x",
    "UPDATE messages SET text = 1",
    "SELECT * FROM other.messages", "SELECT \0 1", "SELECT * FROM nowhere", "SELECT cast(x'ff' AS text)", "SELEC 1",
    "SELECT * FROM messages_fts WHERE messages_fts MATCH 'a:b'", "SELECT writefile('x', 'y')",
    "SELECT readfile('/etc/hosts')",
    "SELECT edit('x')", "WITH x AS (SELECT 1) PRAGMA user_version = 9",
    # The same by another way of writing, or from a place where one might not look.
    "SELECT * FROM main.dbstat", 'SELECT * FROM "pragma_table_list"', "SELECT * FROM [pragma_function_list]",
    "SELECT * FROM `pragma_compile_options`", "SELECT * FROM messages, pragma_foreign_key_list(messages.name)",
    "SELECT (SELECT file FROM pragma_database_list)", "SELECT 1 LIMIT (SELECT load_extension('x'))",
    "WITH x AS (SELECT * FROM pragma_database_list) SELECT * FROM x",
    "SELECT seq FROM messages UNION SELECT * FROM pragma_user_version",
    "SELECT 'a\\'; DELETE FROM messages; --'", "SELECT 1 /* /* */ ; DELETE FROM messages; */",
    "SELECT $a(;DELETE FROM messages;)", "SELECT :a, $b, ?1", "SELECT\u00a01", "SELECT 1 FROM messages\u037e SELECT 2",
    # Other virtual tables and functions, of this build or another.
    "SELECT * FROM fsdir('/etc')", "SELECT * FROM zipfile('x')", "SELECT * FROM bytecode('SELECT 1')",
    "SELECT * FROM sqlite_dbpage", "SELECT * FROM sqlite_stmt", "SELECT rtreenode(2, zeroblob(20000000))",
    "SELECT fts5_source_id()", "SELECT sqlite_compileoption_get(1)", "SELECT eval('DELETE FROM messages')",
    "SELECT text REGEXP 'x' FROM lines", "SELECT * FROM temp.vocabulary", "SELECT unistr('\\ud800')",
)  # fmt: skip
"""Statements that write, reach outside the session, or are no statement."""

BOMBS = (
    "SELECT length(randomblob(900000000))",
    "SELECT length(printf('%.*c', 900000000, 'x'))",
    "SELECT replace(hex(zeroblob(20000000)), '0', 'xxxxxxxxxx')",
    "SELECT group_concat(a.text || b.text || c.text) FROM lines a, lines b, lines c, lines d, lines e",
    "WITH RECURSIVE r(n, s) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, s || s FROM r) SELECT max(length(s)) FROM r",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r) SELECT count(*) FROM r ORDER BY n",
    "SELECT 1" + " + 1" * 500,
    "SELECT 1 " + " UNION ALL SELECT 1" * 300,
    "SELECT '" + "x" * 200_000 + "'",
    "SELECT json_array_length('" + "[" * 50_000 + "')",
    "SELECT json('" + "[" * 1100 + "]" * 1100 + "')",
    "SELECT " + "NOT " * 20_000 + "1",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "SELECT " + "- " * 20_000 + "1",
    "WITH x0 AS (SELECT 1 AS a), "
    + ", ".join(f"x{n + 1} AS (SELECT p.a FROM x{n} p, x{n} q)" for n in range(24))
    + " SELECT count(*) FROM x24",
    "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH '" + "(" * 20_000 + "a" + ")" * 20_000 + "'",
    "SELECT printf('%*d', 900000000, 1)",
    "SELECT printf('%.900000000f', 1.0)",
    "SELECT zeroblob(9223372036854775807)",
    f"{NUMBERS}, k AS (SELECT group_concat(n) AS a FROM (SELECT n FROM r LIMIT 4000000)) "
    "SELECT count(*) FROM k, json_each('[' || a || ']')",
    "SELECT json_group_object(a.id || b.id || c.id || d.id, a.text) FROM lines a, lines b, lines c, lines d, lines e",
    "SELECT median(a.id) FROM lines a, lines b, lines c, lines d, lines e, lines f",
    "WITH t AS MATERIALIZED (SELECT a.text x FROM lines a, lines b, lines c, lines d, lines e) SELECT count(*) FROM t",
    "SELECT a.text || b.text || c.text || d.text AS t FROM lines a, lines b, lines c, lines d, lines e ORDER BY t",
    "SELECT highlight(messages_fts, 0, printf('%.*c', 3000000, 'x'), '') FROM messages_fts WHERE messages_fts MATCH "
    "'k1 OR k2 OR k3 OR v1 OR v2'",
    # What becomes Python's: a text with one wide character takes four bytes for each, and a row may have many cells.
    "SELECT a, a, a FROM (SELECT '\U0001f600' || printf('%.*c', 30000000, 'x') AS a)",
    f"{NUMBERS} SELECT " + ", ".join(["printf('%.*c', 2000, 'x')"] * 1900) + " FROM r LIMIT 200",
    # What an error says back.
    'SELECT "' + "x" * 90_000 + '"',
    "SELECT " + "x" * 90_000 + "(1)",
)
"""Statements that ask for more memory or text than a statement may have."""

HEAVY = (
    "SELECT '\U0001f600' || printf('%.*c', 30000000, 'x')",
    f"{NUMBERS} SELECT " + ", ".join(["printf('%.*c', 2000, '\U0001f600')"] * 100) + " FROM r LIMIT 200",
    f"{NUMBERS} SELECT " + ", ".join(["randomblob(9000)"] * 100) + " FROM r LIMIT 200",
    'SELECT 1 AS "' + "x" * 90_000 + '"',
    "SELECT " + ", ".join(f'{n} AS "{"x" * 900}{n}"' for n in range(100)),
    "SELECT 1 IN (" + ",".join(map(str, range(15_000))) + ")",
    "SELECT jsonb(printf('[%s]', replace(hex(zeroblob(3000000)), '00', '1,') || '1'))",
    "SELECT " + ", ".join(f"{n} AS c{n}" for n in range(100)),
)
"""Statements that are answered, with less than they ask for where that is too much."""

SLOW = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "SELECT count(*) FROM lines a, lines b, lines c, lines d, lines e, lines f, lines g WHERE 0 = a.id * b.id * g.id",
    "SELECT instr(printf('%.*c', 8000000, 'a'), printf('%.*c', 4000000, 'a') || 'b')",
    "SELECT replace(printf('%.*c', 4000000, 'a'), printf('%.*c', 2000000, 'a') || 'b', 'x')",
    f"{NUMBERS}, k AS (SELECT group_concat('\"k' || n || '\":1') AS a FROM (SELECT n FROM r LIMIT 60000)) "
    "SELECT json_patch('{' || a || '}', '{' || a || '}') FROM k",
    f"{NUMBERS} SELECT count(*) FROM messages_fts WHERE messages_fts MATCH "
    "(SELECT group_concat('t' || n, ' OR ') FROM (SELECT n FROM r LIMIT 100000))",
)
"""Statements without end, some of them inside one function that nothing but a kill stops."""
