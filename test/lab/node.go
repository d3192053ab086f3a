// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Schemas as the Debian packages install them.
const (
	vswitchSchema = "/usr/share/openvswitch/vswitch.ovsschema"
	nbSchema      = "/usr/share/ovn/ovn-nb.ovsschema"
	sbSchema      = "/usr/share/ovn/ovn-sb.ovsschema"
)

// Bridge is the integration bridge of every node.
const Bridge = "br-int"

// underlay joins the nodes of a lab that has several; it is a bridge of each
// node, with the first node's as the hub.
const underlay = "br-ex"

// Node is a chassis: a namespace with ovsdb-server, ovs-vswitchd and
// ovn-controller. Its name is its system-id.
type Node struct {
	*Host
	// OVSDB is the endpoint of the local Open_vSwitch database, OpenFlow that of
	// the bridge's management connection.
	OVSDB, OpenFlow string
	// OVSDBTCP is the local database on TCP, with Options.TCP.
	OVSDBTCP string

	encap   string
	daemons map[string]*daemon
}

func (l *Lab) newNode(number int) (*Node, error) {
	h, err := l.newHost(fmt.Sprintf("node%d", number))
	if err != nil {
		return nil, err
	}
	// The node's ends of the guests' cables have nothing to say themselves.
	if err := h.sysctl6("1", "disable_ipv6"); err != nil {
		return nil, err
	}
	n := &Node{
		Host:     h,
		OVSDB:    "unix:" + h.file("db.sock"),
		OpenFlow: "unix:" + h.file(Bridge+".mgmt"),
		encap:    "127.0.0.1",
	}
	if l.opts.Nodes > 1 {
		n.encap = fmt.Sprintf("172.31.255.%d", number)
	}
	// Whatever a program would look for in the system's folders is here.
	for _, kv := range []string{"OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR", "OVN_RUNDIR", "OVN_DBDIR", "OVN_LOGDIR", "OVN_SYSCONFDIR"} {
		h.env = append(h.env, kv+"="+h.Dir)
	}
	db := newDaemon(h, h.Dir, "ovsdb-server", "ovsdb-server", "--remote=p"+n.OVSDB, h.file("conf.db"))
	db.database, db.schema = h.file("conf.db"), vswitchSchema
	if l.opts.TCP {
		n.OVSDBTCP = "tcp:127.0.0.1:6640"
		db.argv = append(db.argv, "--remote=ptcp:6640:127.0.0.1")
	}
	db.ready = func(ctx context.Context) error { return db.wait(ctx, h.file("db.sock")) }
	switchd := newDaemon(h, h.Dir, "ovs-vswitchd", "ovs-vswitchd")
	if l.Datapath != Kernel {
		switchd.argv = append(switchd.argv, "--disable-system")
	}
	switchd.argv = append(switchd.argv, n.OVSDB)
	switchd.ready = func(ctx context.Context) error { return switchd.wait(ctx, h.file(Bridge+".mgmt")) }
	controller := newDaemon(h, h.Dir, ovnController, ovnController, n.OVSDB)
	controller.ready = n.connected
	n.daemons = map[string]*daemon{"ovsdb-server": db, "ovs-vswitchd": switchd, ovnController: controller}
	return n, nil
}

// emptyDatabases has the content of an empty database by its schema's file.
var emptyDatabases sync.Map

// newDatabase makes the file of an empty database.
func (h *Host) newDatabase(ctx context.Context, file, schema string) error {
	if content, ok := emptyDatabases.Load(schema); ok {
		return os.WriteFile(file, content.([]byte), 0o640)
	}
	if _, err := h.Exec(ctx, "ovsdb-tool", "create", file, schema); err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err == nil {
		emptyDatabases.Store(schema, content)
	}
	return err
}

// startCentral starts the OVN databases and ovn-northd in the first node's
// namespace, with their files in the lab's folder.
func (l *Lab) startCentral(ctx context.Context) error {
	h := l.Node.Host
	if l.opts.TCP {
		l.NBTCP, l.SBTCP = "tcp:127.0.0.1:6641", "tcp:127.0.0.1:6642"
	}
	for _, db := range []struct{ name, schema, endpoint, tcp string }{
		{"nb", nbSchema, l.NB, "ptcp:6641"},
		{"sb", sbSchema, l.SB, "ptcp:6642"},
	} {
		if db.name == "sb" && l.opts.Members > 0 {
			if err := l.startMembers(ctx); err != nil {
				return err
			}
			continue
		}
		file := filepath.Join(l.Dir, db.name+".db")
		if err := h.newDatabase(ctx, file, db.schema); err != nil {
			return err
		}
		d := newDaemon(h, l.Dir, db.name, "ovsdb-server", "--remote=p"+db.endpoint, file)
		d.database, d.schema = file, db.schema
		if l.opts.TCP {
			d.argv = append(d.argv, "--remote="+db.tcp)
		}
		d.ready = func(ctx context.Context) error { return d.wait(ctx, strings.TrimPrefix(db.endpoint, "unix:")) }
		l.daemons[db.name] = d
		if err := d.start(ctx); err != nil {
			return err
		}
	}
	if l.opts.Plain {
		return nil
	}
	l.daemons["ovn-northd"] = newDaemon(h, l.Dir, "ovn-northd", "ovn-northd", "--ovnnb-db="+l.NB, "--ovnsb-db="+l.SB)
	return l.daemons["ovn-northd"].start(ctx)
}

// startSwitch starts the node's database and switch.
func (n *Node) startSwitch(ctx context.Context) error {
	if err := n.newDatabase(ctx, n.file("conf.db"), vswitchSchema); err != nil {
		return err
	}
	if err := n.daemons["ovsdb-server"].start(ctx); err != nil {
		return err
	}
	mode := "secure"
	if n.l.opts.Plain {
		mode = "standalone"
	}
	// The switch finds its whole configuration when it starts.
	argv := []string{"ovs-vsctl", "--db=" + n.OVSDB, "--no-wait", "init",
		"--", "set", "Open_vSwitch", ".",
		"external_ids:system-id=" + n.Name,
		`external_ids:ovn-remote="` + n.l.SB + `"`,
		"external_ids:ovn-encap-type=geneve",
		"external_ids:ovn-encap-ip=" + n.encap,
		"external_ids:ovn-bridge-datapath-type=" + n.l.Datapath,
		"--", "add-br", Bridge,
		"--", "set", "Bridge", Bridge, "datapath_type=" + n.l.Datapath, "fail_mode=" + mode, "other_config:disable-in-band=true",
	}
	if n.l.opts.Nodes > 1 {
		argv = append(argv, "--", "add-br", underlay, "--", "set", "Bridge", underlay, "datapath_type="+n.l.Datapath)
	}
	if _, err := n.Exec(ctx, argv...); err != nil {
		return err
	}
	if err := n.daemons["ovs-vswitchd"].start(ctx); err != nil {
		return err
	}
	if n.l.opts.Nodes > 1 {
		return n.joinUnderlay(ctx)
	}
	return nil
}

// joinUnderlay gives the node its tunnel address and a link to the hub.
func (n *Node) joinUnderlay(ctx context.Context) error {
	if err := n.ip("link set dev "+underlay+" up", "addr add "+n.encap+"/24 dev "+underlay); err != nil {
		return err
	}
	hub := n.l.Node
	if n == hub {
		return nil
	}
	const uplink = "uplink"
	if err := vethPair(hub.Host, n.Name, n.Host, uplink, ""); err != nil {
		return err
	}
	if _, err := hub.Exec(ctx, "ovs-vsctl", "--db="+hub.OVSDB, timeoutFlag, "add-port", underlay, n.Name); err != nil {
		return err
	}
	if err := n.ip("link set dev " + uplink + " up"); err != nil {
		return err
	}
	_, err := n.Exec(ctx, "ovs-vsctl", "--db="+n.OVSDB, timeoutFlag, "add-port", underlay, uplink)
	return err
}

// connected waits until ovn-controller has the Southbound database and has
// entered its chassis there.
func (n *Node) connected(ctx context.Context) error {
	id, err := n.Exec(ctx, "ovs-vsctl", "--db="+n.OVSDB, timeoutFlag, "get", "Open_vSwitch", ".", "external_ids:system-id")
	if err != nil {
		return err
	}
	_, err = n.Exec(ctx, "ovn-sbctl", "--db="+n.l.SB, "--no-leader-only", timeoutFlag, "wait-until", "Chassis", strings.Trim(strings.TrimSpace(id), `"`))
	return err
}

// VSCTL runs ovs-vsctl on the node; it waits for the switch unless --no-wait is
// given.
func (n *Node) VSCTL(args ...string) string {
	n.l.t.Helper()
	return n.must(append([]string{"ovs-vsctl", "--db=" + n.OVSDB, timeoutFlag}, args...)...)
}

// OFCTL runs ovs-ofctl with OpenFlow 1.5; bridges go by name.
func (n *Node) OFCTL(args ...string) string {
	n.l.t.Helper()
	return n.must(append([]string{"ovs-ofctl", "--protocols=OpenFlow15"}, args...)...)
}
