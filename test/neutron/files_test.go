// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

// What every installation of Neutron has in some form; what puntdns asks of it is in the page.

const neutronConf = `[DEFAULT]
host = HOST
auth_strategy = noauth
core_plugin = ml2
transport_url = QUEUE
state_path = DIR
api_paste_config = /etc/neutron/api-paste.ini
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
rpc_workers = 1
rpc_response_timeout = 20
rpc_state_report_workers = 0
[database]
connection = mysql+pymysql://root@localhost/neutron?unix_socket=DIR/mysql.sock&charset=utf8mb3
max_pool_size = 10
[oslo_concurrency]
lock_path = DIR/lock
[agent]
root_helper =
[securitygroup]
enable_security_group = true
`

const uwsgiConf = `[uwsgi]
plugins = python3
module = neutron.wsgi.api:application
http-socket = 127.0.0.1:9696
processes = 1
threads = 4
lazy-apps = true
enable-threads = true
die-on-term = true
need-app = true
rem-header = Content-Length
add-header = Connection: close
start-time = %t
`

const metadataConf = `
[DEFAULT]
nova_metadata_host = 127.0.0.1
nova_metadata_port = 8775
metadata_proxy_shared_secret = secret
metadata_workers = 1
[ovs]
ovsdb_connection = tcp:127.0.0.1:6640
`
