// Reads the orders of the server at the port that is given, by node-postgres and one of its cursors.
const { Client } = require("pg");
const Cursor = require("pg-cursor");

async function main() {
  const client = new Client({
    host: "127.0.0.1", port: Number(process.argv[2]), user: "ann", database: "viewmill",
  });
  await client.connect();
  const query = { name: "one", text: "SELECT * FROM orders WHERE id = $1", values: [1] };
  for (let i = 0; i < 2; i++) console.log(JSON.stringify((await client.query(query)).rows));
  const cursor = client.query(new Cursor("SELECT id FROM orders ORDER BY id"));
  console.log(JSON.stringify([await cursor.read(1), await cursor.read(5)]));
  await cursor.close();
  await client.end();
}

main();
