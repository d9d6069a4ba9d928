import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;

/** Reads names and orders of the server at the port that is given, by JDBC. */
public class ReadOrders {
    public static void main(String[] given) throws Exception {
        String url = "jdbc:postgresql://127.0.0.1:" + given[0] + "/viewmill?user=ann";
        try (Connection client = DriverManager.getConnection(url)) {
            DatabaseMetaData names = client.getMetaData();
            names.getTypeInfo();
            print(names.getTables(null, "public", "%", new String[] {"TABLE"}), "TABLE_NAME");
            print(names.getColumns(null, null, "orders", "%"), "COLUMN_NAME", "TYPE_NAME");
            print(names.getPrimaryKeys(null, null, "orders"), "PK_NAME", "COLUMN_NAME");
            print(names.getIndexInfo(null, null, "orders", true, true), "INDEX_NAME");
            String query = "SELECT customer, amount, at, paid, weight FROM orders WHERE id = ?";
            PreparedStatement prepared = client.prepareStatement(query);
            for (int i = 0; i < 8; i++) { // from the fifth on, values are binary
                prepared.setLong(1, 1);
                print(prepared.executeQuery(), "customer", "amount", "at", "paid", "weight");
            }
            client.setAutoCommit(false);
            Statement few = client.createStatement();
            few.setFetchSize(1);
            print(few.executeQuery("SELECT id FROM orders ORDER BY id"), "id");
            client.commit();
        }
    }

    private static void print(ResultSet rows, String... columns) throws Exception {
        while (rows.next()) {
            StringBuilder line = new StringBuilder();
            for (String column : columns) line.append(' ').append(rows.getString(column));
            System.out.println(line.toString().trim());
        }
    }
}
