// SPDX-License-Identifier: Apache-2.0

//go:build neutron

package neutron

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/puntdns/puntdns/test/lab"
)

// host is the name of the one node for Neutron.
const host = "node1"

// cloud is a Neutron on a lab's node: its database, API and agents.
type cloud struct {
	l    *lab.Lab
	node *lab.Node
	name string // for the lines that tell what was shown
	page page
	etc  string // folder of the files of Neutron
	// files are Neutron's configuration files, for the option --config-file. Later ones
	// override earlier ones.
	files []string
	// upstream is what *forward* asks.
	upstream *lab.DNSServer
	procs    map[string]*lab.Process
	// plugged counts the guests.
	plugged int
	// openflow is the newest version that the bridge speaks, as ovs-ofctl names it.
	openflow string
}

// options is how a cloud differs from another one.
type options struct {
	name   string
	lab    lab.Options
	common string   // of neutron.conf, beside what every cloud has
	blocks []string // of the page, which become files of the configuration
	queue  bool     // a message queue, without which there are no agents with RPC
}

// newCloud starts Neutron's API on a new lab. Agents are for the caller to start.
func newCloud(t *testing.T, o options) *cloud {
	t.Helper()
	o.lab.TCP = true
	l := lab.New(t, o.lab)
	c := &cloud{l: l, node: l.Node, name: o.name, page: readPage(t), etc: filepath.Join(l.Dir, "neutron"), procs: map[string]*lab.Process{}, openflow: "OpenFlow15"}
	c.places(t)
	c.node.VSCTL("set", "Open_vSwitch", ".", "external_ids:hostname="+host)
	c.upstream = c.node.ServeDNS("127.0.0.53:53", "www.example.org. 60 IN A 192.0.2.80", "www.example.org. 60 IN AAAA 2001:db8::80")

	started := time.Now()
	queue := "fake://"
	if o.queue {
		queue = "rabbit://guest:guest@127.0.0.1:5672/"
	}
	c.config(t, "neutron.conf", strings.NewReplacer("QUEUE", queue, "DIR", c.etc, "HOST", host).Replace(neutronConf)+o.common)
	for _, key := range o.blocks {
		c.config(t, fmt.Sprintf("page%d.conf", len(c.files)), c.page.block(t, key))
	}
	if o.queue {
		c.startQueue(t)
	}
	c.startDatabase(t)
	c.startAPI(t)
	tell("%s: API up after %.0f s", c.name, time.Since(started).Seconds())
	return c
}

// places puts what programs look for in the system's folders there: sockets of the lab, and a
// resolv.conf.
func (c *cloud) places(t *testing.T) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(c.etc, 0o755))
	must(os.MkdirAll("/run/puntdns", 0o755)) // for the control sockets of the page's Corefiles
	// dnsmasq reads the DHCP agent's files as an unprivileged user.
	must(os.Chmod(c.l.Dir, 0o711))
	for path, to := range map[string]string{
		"/run/openvswitch": c.node.Dir,
		"/run/ovn":         c.l.Dir,
		"/var/lib/neutron": c.etc,
	} {
		must(os.RemoveAll(path))
		must(os.Symlink(to, path))
	}
	for path, to := range map[string]string{"ovnsb_db.sock": "sb.sock", "ovnnb_db.sock": "nb.sock"} {
		must(os.Symlink(to, filepath.Join(c.l.Dir, path)))
	}
	must(os.WriteFile("/etc/resolv.conf", []byte("nameserver 127.0.0.53\n"), 0o644))
	must(os.WriteFile("/etc/hosts", []byte("127.0.0.1 localhost "+host+"\n"), 0o644))
}

// config writes a file of Neutron's configuration.
func (c *cloud) config(t *testing.T, name, text string) {
	t.Helper()
	c.files = append(c.files, c.write(t, name, text))
}

func (c *cloud) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(c.etc, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// run starts a program that goes on until it is stopped.
func (c *cloud) run(name string, argv ...string) *lab.Process {
	p := c.node.Start(name, nil, argv...)
	c.procs[name] = p
	return p
}

// daemon starts one of Neutron's programs, with files of its own after those of all.
func (c *cloud) daemon(name string, files ...string) {
	argv := []string{name}
	for _, f := range append(append([]string(nil), c.files...), files...) {
		argv = append(argv, "--config-file="+f)
	}
	c.run(name, argv...)
}

// restart ends a daemon in order and starts it with the same arguments.
func (c *cloud) restart(name string, files ...string) {
	_ = c.procs[name].Stop()
	c.daemon(name, files...)
}

// alive fails if a program that is needed has ended.
func (c *cloud) alive(name string) error {
	p := c.procs[name]
	select {
	case <-p.Done():
		return ended{fmt.Errorf("%s has ended: %s", name, last(p.Log(), 20))}
	default:
		return nil
	}
}

func last(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}

// exec runs a command on the node and returns what it prints.
func (c *cloud) exec(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := c.node.Exec(within(t, patience), argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// shell runs a block of the page on the node. words are pairs of what stands in the page and
// what is meant here.
func (c *cloud) shell(t *testing.T, key string, words ...string) string {
	t.Helper()
	return c.exec(t, "env", "OS_AUTH_TYPE=none", "OS_ENDPOINT="+endpoint, "sh", "-ec", strings.NewReplacer(words...).Replace(c.page.block(t, key)))
}

// neutronSchema has the tables of a new Neutron, once the first cloud has made them.
const neutronSchema = "/var/tmp/neutron.sql"

// startDatabase starts MariaDB with Neutron's tables in it.
func (c *cloud) startDatabase(t *testing.T) {
	t.Helper()
	data, socket := filepath.Join(c.etc, "mysql"), filepath.Join(c.etc, "mysql.sock")
	c.exec(t, "mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	c.run("mariadbd", "mariadbd", "--no-defaults", "--user=root", "--datadir="+data, "--socket="+socket, "--skip-networking",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-log-file-size=16M", "--max-connections=200")
	client := []string{"mariadb", "--no-defaults", "--user=root", "--socket=" + socket}
	until(t, wait, "MariaDB", func() error {
		_, err := c.node.Exec(within(t, wait), append(client, "-e", "SELECT 1")...)
		return errors.Join(err, c.alive("mariadbd"))
	})
	c.exec(t, append(client, "-e", "CREATE DATABASE neutron CHARACTER SET utf8mb3")...)
	if _, err := os.Stat(neutronSchema); err == nil {
		c.exec(t, append(client, "neutron", "-e", "source "+neutronSchema)...)
		return
	}
	started := time.Now()
	argv := []string{"neutron-db-manage"}
	for _, f := range c.files {
		argv = append(argv, "--config-file="+f)
	}
	c.exec(t, append(argv, "upgrade", "heads")...)
	c.exec(t, "sh", "-c", "mariadb-dump --no-defaults --user=root --socket="+socket+" neutron >"+neutronSchema)
	tell("%s: tables made in %.0f s", c.name, time.Since(started).Seconds())
}

// rabbit runs one of RabbitMQ's programs with its environment.
func (c *cloud) rabbit(program string, args ...string) []string {
	dir := filepath.Join(c.etc, "rabbit")
	return append([]string{"env", "HOME=" + dir, "RABBITMQ_NODENAME=rabbit@localhost", "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1", "ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_MNESIA_BASE=" + dir, "RABBITMQ_LOG_BASE=" + dir, "RABBITMQ_PID_FILE=" + dir + "/pid", "RABBITMQ_ENABLED_PLUGINS_FILE=" + dir + "/plugins",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none", "/usr/lib/rabbitmq/bin/" + program}, args...)
}

// startQueue starts RabbitMQ.
func (c *cloud) startQueue(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(c.etc, "rabbit"), 0o700); err != nil {
		t.Fatal(err)
	}
	c.run("rabbitmq", c.rabbit("rabbitmq-server")...)
}

// consumed waits until somebody reads a message queue. What is asked before is asked again
// only after a timeout.
func (c *cloud) consumed(t *testing.T, queue string) {
	t.Helper()
	until(t, patience, "readers of the queue "+queue, func() error {
		out, err := c.node.Exec(within(t, wait), c.rabbit("rabbitmqctl", "--quiet", "list_queues", "--no-table-headers", "name", "consumers")...)
		if err == nil && !regexp.MustCompile(`(?m)^`+queue+`\s+[1-9]`).MatchString(out) {
			err = fmt.Errorf("queues and their readers:\n%s", out)
		}
		return err
	})
}

// startAPI starts Neutron's API and waits until it answers.
func (c *cloud) startAPI(t *testing.T) {
	t.Helper()
	ini := c.write(t, "uwsgi.ini", uwsgiConf)
	c.run("neutron-api", "env", "OS_NEUTRON_CONFIG_FILES="+strings.Join(c.files, ";"), "uwsgi", "--ini", ini)
	until(t, patience, "Neutron's API", func() error {
		return errors.Join(c.request(within(t, wait), http.MethodGet, "networks", nil, nil), c.alive("neutron-api"))
	})
}

// shows runs a test of one property and tells that it has been shown.
func (c *cloud) shows(t *testing.T, property string, f func(t *testing.T)) {
	t.Helper()
	started := time.Now()
	ok := t.Run(property, f)
	tell("%-4s %5.1f s  %s: %s", map[bool]string{true: "ok", false: "FAIL"}[ok], time.Since(started).Seconds(), c.name, property)
}

// keep waits for SIGINT, with KEEP=1 in the environment. It is for a defer, which runs before
// all that the test cleans up.
func (c *cloud) keep() {
	if os.Getenv("KEEP") != "1" {
		return
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(end)
	tell("%s is left up, until SIGINT. Its processes and files are those of process %d; of its network:\n  nsenter --net=%s", c.name, os.Getpid(), c.node.NetNS())
	<-end
}
