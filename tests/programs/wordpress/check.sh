# WordPress as Debian ships it: its installer, posts, terms, options, users, queries, and an upgrade of the schema.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp -rL "$PROGRAMS/wordpress/usr/share/wordpress/." "$folder" 2>/dev/null || true
cat > "$folder/wp-config.php" <<PHP
<?php
define('DB_NAME', getenv('DB_NAME')); define('DB_USER', 'root'); define('DB_PASSWORD', '');
define('DB_HOST', '127.0.0.1:' . getenv('DB_PORT')); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
foreach (['AUTH_KEY','SECURE_AUTH_KEY','LOGGED_IN_KEY','NONCE_KEY','AUTH_SALT','SECURE_AUTH_SALT','LOGGED_IN_SALT','NONCE_SALT'] as \$k) define(\$k, 'fixed');
define('DISABLE_WP_CRON', true); define('WP_HTTP_BLOCK_EXTERNAL', true); define('WP_DEBUG', false); define('WP_SITEURL', 'http://localhost'); define('WP_HOME', 'http://localhost');
\$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
require_once ABSPATH . 'wp-settings.php';
PHP
cat > "$folder/check.php" <<'PHP'
<?php
error_reporting(0);
$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REQUEST_METHOD' => 'GET', 'REMOTE_ADDR' => '127.0.0.1'];
if (($argv[1] ?? '') === 'install') define('WP_INSTALLING', true);
require __DIR__ . '/wp-config.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
require_once ABSPATH . 'wp-admin/includes/taxonomy.php';
global $wpdb;
function wp_mail() { return true; }
function step($name, $work) {
    global $wpdb;
    $wpdb->last_error = '';
    try { $got = $work(); } catch (Throwable $e) { $got = get_class($e) . ' ' . $e->getMessage(); }
    echo "$name: ", json_encode($got, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES), $wpdb->last_error ? " ($wpdb->last_error)" : '', "\n";
}
if (($argv[1] ?? '') === 'install') {
    step('install', fn() => wp_install('Site', 'admin', 'a@example.com', true, '', 'secret')['user_id']);
    exit;
}
step('schema again', fn() => dbDelta(wp_get_db_schema(), false));
step('term', fn() => wp_insert_term('Neues', 'category', ['slug' => 'neues'])['term_id']);
$post = 0;
step('post', function () use (&$post) { $post = wp_insert_post(['post_title' => "It's 😀", 'post_content' => 'Text \\ "x"', 'post_status' => 'publish', 'post_date' => '2024-02-29 01:02:03', 'post_date_gmt' => '2024-02-29 01:02:03', 'post_category' => [1], 'tags_input' => ['rot', 'grün'], 'meta_input' => ['n' => 5, 'list' => [1, 2]], 'post_author' => 1], true); return is_int($post); });
step('more posts', function () { for ($i = 0; $i < 12; $i++) wp_insert_post(['post_title' => "p$i", 'post_status' => 'publish', 'post_date' => sprintf('2024-01-%02d 00:00:00', $i + 1), 'post_author' => 1, 'meta_input' => ['n' => $i]]); });
step('page of posts', fn() => array_column((new WP_Query(['posts_per_page' => 3, 'paged' => 2, 'post_type' => 'post']))->posts, 'post_title'));
step('found', fn() => (new WP_Query(['posts_per_page' => 3, 'post_type' => 'post']))->found_posts);
step('by meta', fn() => array_column(get_posts(['meta_key' => 'n', 'orderby' => 'meta_value_num', 'meta_query' => [['key' => 'n', 'value' => [4, 6], 'compare' => 'BETWEEN', 'type' => 'NUMERIC']]]), 'post_title'));
step('by tag', fn() => array_column(get_posts(['tax_query' => [['taxonomy' => 'post_tag', 'field' => 'name', 'terms' => ['grün']]]]), 'post_title'));
step('by date', fn() => array_column(get_posts(['date_query' => [['year' => 2024, 'month' => 1, 'day' => 5]]]), 'post_title'));
step('search', fn() => array_column(get_posts(['s' => "it's"]), 'post_title'));
step('archives', fn() => substr_count(wp_get_archives(['echo' => false]), '<li>'));
step('options', function () { add_option('o', ['a' => 'ü']); update_option('o', ['b' => str_repeat('x', 70000)]); return strlen(serialize(get_option('o'))); });
step('delete option', fn() => delete_option('o'));
step('transient', function () { set_transient('t', 5, 60); $v = get_transient('t'); delete_transient('t'); return $v; });
step('user', function () { $u = wp_insert_user(['user_login' => 'bob', 'user_pass' => 'x', 'user_email' => 'b@example.com', 'role' => 'editor', 'user_registered' => '2020-01-01 00:00:00']); return [count_users()['avail_roles']['editor'], get_user_by('email', 'B@example.com')->user_login, is_int($u)]; });
step('comment', fn() => wp_insert_comment(['comment_post_ID' => $post, 'comment_content' => 'hi', 'comment_author' => 'x', 'comment_date' => '2024-01-01 00:00:00', 'comment_date_gmt' => '2024-01-01 00:00:00', 'comment_approved' => 1]) > 0);
step('counts', fn() => [wp_count_posts()->publish, wp_count_comments()->approved, wp_count_terms(['taxonomy' => 'post_tag', 'hide_empty' => false])]);
step('revision', fn() => is_int(wp_update_post(['ID' => $post, 'post_content' => 'changed', 'post_modified' => '2024-01-01 00:00:00'])));
step('trash', fn() => wp_trash_post($post)->post_status);
step('delete', fn() => wp_delete_post($post, true)->post_title);
step('error', fn() => $wpdb->query('SELECT nope FROM wp_posts'));
step('insert', fn() => $wpdb->insert('wp_options', ['option_name' => 'home', 'option_value' => 'twice']));
step('columns', fn() => $wpdb->get_col_length('wp_posts', 'post_title'));
step('charset', fn() => [$wpdb->get_col_charset('wp_posts', 'post_content'), $wpdb->has_cap('utf8mb4_520')]);
step('too long', fn() => $wpdb->insert('wp_options', ['option_name' => str_repeat('n', 300), 'option_value' => '']));
foreach (["UPDATE wp_posts SET post_modified = '2024-01-01', post_modified_gmt = '2024-01-01', post_date = '2024-01-01', post_date_gmt = '2024-01-01'",
    "UPDATE wp_users SET user_pass = '', user_registered = '2024-01-01'", "UPDATE wp_comments SET comment_date = '2024-01-01', comment_date_gmt = '2024-01-01'",
    "DELETE FROM wp_options WHERE option_name LIKE '%transient%' OR option_name IN ('cron', 'recently_edited', 'auth_key') OR option_name LIKE '%\\_key' OR option_name LIKE '%\\_salt' OR option_name = 'fresh_site' OR option_name = 'admin_email_lifespan'",
    "DELETE FROM wp_usermeta WHERE meta_key IN ('session_tokens')"] as $sql) step('fix', fn() => $wpdb->query($sql) !== false);
PHP
php "$folder/check.php" install
php "$folder/check.php" all
