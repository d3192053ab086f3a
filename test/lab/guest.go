// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Iface is the name of a guest's interface, inside it.
const Iface = "eth0"

// Guest is a virtual machine, as far as the network can tell: a namespace with
// one interface on a node's bridge. The exported fields describe it to
// [Node.AddGuest].
type Guest struct {
	*Host // set by AddGuest

	Name   string // of the guest, and of its interface on the node if it has at most 15 bytes
	Switch string // logical switch for a port to create; empty: none is created
	Port   string // logical port and iface-id, default Name; created unless it exists
	MAC    string
	Addrs  []netip.Prefix // of the interface, and of a logical port that is created

	Gateway4, Gateway6 netip.Addr // default routes, if valid
	Routes             []string   // further ones, as "ip route add" takes them

	// For a logical port that is created:
	Addresses    string   // its addresses column instead of MAC and Addrs, such as "dynamic"
	PortSecurity bool     // for MAC and Addrs
	Hostname     string   // options:hostname
	Settings     []string // columns of the port as ovn-nbctl set takes them, such as "type=localport"

	// Set by AddGuest:
	NodePort string // the interface on the node and port of the bridge
	OFPort   int    // its OpenFlow port number

	node        *Node
	created     bool
	createdType string // of the port, if it was created
}

// AddGuest starts a guest and waits until its port is up and its flows are
// installed.
func (n *Node) AddGuest(spec Guest) *Guest {
	n.l.t.Helper()
	g := &spec
	g.node = n
	if g.Port == "" {
		g.Port = g.Name
	}
	if err := g.start(); err != nil {
		n.l.t.Fatalf("guest %s: %v", g.Name, err)
	}
	return g
}

func (g *Guest) start() error {
	n, l := g.node, g.node.l
	if err := l.register(g); err != nil {
		return err
	}
	if err := vethPair(n.Host, g.NodePort, g.Host, Iface, g.MAC); err != nil {
		return err
	}
	up := []string{"link set dev " + Iface + " up"}
	for _, a := range g.Addrs {
		up = append(up, "addr add "+a.String()+" dev "+Iface)
	}
	for _, gw := range []netip.Addr{g.Gateway4, g.Gateway6} {
		if gw.IsValid() {
			up = append(up, "route add default via "+gw.String())
		}
	}
	for _, r := range g.Routes {
		up = append(up, "route add "+r)
	}
	if err := g.ip(up...); err != nil {
		return err
	}
	if err := g.settled(); err != nil {
		return err
	}
	if err := g.createPort(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	vsctl := []string{"ovs-vsctl", "--db=" + n.OVSDB, timeoutFlag}
	if _, err := n.Exec(ctx, append(vsctl, "add-port", Bridge, g.NodePort,
		"--", "set", "Interface", g.NodePort, "external_ids:iface-id="+g.Port, `external_ids:attached-mac="`+g.MAC+`"`)...); err != nil {
		return err
	}
	wait, err := g.installed(ctx)
	if err != nil {
		return err
	}
	out, err := n.Exec(ctx, slices.Concat(vsctl, wait, []string{"get", "Interface", g.NodePort, "ofport"})...)
	if err != nil {
		return err
	}
	g.OFPort, err = strconv.Atoi(strings.TrimSpace(out))
	return err
}

// settled waits until the guest's IPv6 addresses serve, the link-local one
// included: the kernel gets to it in its own time, even without duplicate
// address detection.
func (g *Guest) settled() error {
	return Poll(context.Background(), func() error {
		var table []byte
		err := g.Do(func() (err error) {
			table, err = os.ReadFile("/proc/thread-self/net/if_inet6")
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a kernel without IPv6
		}
		if err != nil {
			return err
		}
		linkLocal := false
		for line := range strings.Lines(string(table)) {
			// Address, index, prefix length, scope, flags, name.
			f := strings.Fields(line)
			if len(f) != 6 || f[5] != Iface {
				continue
			}
			flags, err := strconv.ParseUint(f[4], 16, 32)
			if err != nil {
				return hopeless{err}
			}
			if flags&unix.IFA_F_TENTATIVE != 0 {
				return fmt.Errorf("address %s is tentative", f[0])
			}
			linkLocal = linkLocal || strings.HasPrefix(f[0], "fe80")
		}
		if !linkLocal {
			return errors.New("no link-local address yet")
		}
		return nil
	})
}

// installed returns the command of ovs-vsctl that waits until ovn-controller has put the flows of
// the port into the switch; where there is none, it has waited itself.
func (g *Guest) installed(ctx context.Context) (wait []string, err error) {
	if g.l.opts.Plain {
		return nil, nil
	}
	typ := g.createdType
	if !g.created {
		typ, err = g.portType(ctx)
	}
	switch {
	case errors.Is(err, errNoPort):
		return nil, nil
	case err == nil && typ != "":
		// A localport is bound to no chassis and so never reported.
		_, err = g.node.Exec(ctx, append(g.nbctl(), "--wait=hv", "sync")...)
		return nil, err
	}
	return []string{"wait-until", "Interface", g.NodePort, "external_ids:ovn-installed=true", "--"}, err
}

func (g *Guest) nbctl() []string {
	return []string{"ovn-nbctl", "--db=" + g.l.NB, "--no-leader-only", timeoutFlag}
}

// errNoPort says that a guest has no logical port.
var errNoPort = errors.New("no such logical port")

// portType returns the type of the guest's logical port.
func (g *Guest) portType(ctx context.Context) (string, error) {
	out, err := g.node.Exec(ctx, append(g.nbctl(), "--format=csv", "--no-headings", "--data=bare", "--columns=name,type", "find", "Logical_Switch_Port", `name="`+g.Port+`"`)...)
	if err != nil {
		return "", err
	}
	typ, found := strings.CutPrefix(strings.TrimSpace(out), g.Port+",")
	if !found {
		return "", errNoPort
	}
	return typ, nil
}

// register gives the guest its namespace and a name on the node.
func (l *Lab) register(g *Guest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return errClosed
	}
	if l.guests[g.Name] != nil || g.Name == "" {
		return errors.New("the name is empty or taken")
	}
	h, err := l.newHost(g.Name)
	if err != nil {
		return err
	}
	g.Host = h
	g.NodePort = g.Name
	if len(g.NodePort) > 15 {
		g.NodePort = fmt.Sprintf("guest%d", len(l.guests)+1)
	}
	l.guests[g.Name] = g
	return nil
}

// createPort creates the logical port where there is a switch and no port.
func (g *Guest) createPort() error {
	if g.Switch == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	own := g.MAC
	for _, a := range g.Addrs {
		own += " " + a.Addr().String()
	}
	addresses := g.Addresses
	if addresses == "" {
		addresses = own
	}
	args := append(g.nbctl(), "lsp-add", g.Switch, g.Port, "--", "lsp-set-addresses", g.Port, addresses)
	if g.PortSecurity {
		args = append(args, "--", "lsp-set-port-security", g.Port, own)
	}
	settings := g.Settings
	if g.Hostname != "" {
		settings = append([]string{"options:hostname=" + g.Hostname}, settings...)
	}
	if len(settings) > 0 {
		args = append(append(args, "--", "set", "Logical_Switch_Port", g.Port), settings...)
	}
	typ, err := g.node.Exec(ctx, append(args, "--", "lsp-get-type", g.Port)...)
	if err != nil && strings.Contains(err.Error(), "a port with this name already exists") {
		return nil
	}
	g.created, g.createdType = err == nil, strings.TrimSpace(typ)
	return err
}

// Remove ends what runs in the guest, takes its port off the bridge and deletes
// its logical port if AddGuest created it.
func (g *Guest) Remove() {
	g.l.t.Helper()
	for _, p := range g.l.forget(g) {
		_ = p.Stop()
	}
	g.node.VSCTL("del-port", Bridge, g.NodePort)
	if g.created {
		g.l.NBCTL("--if-exists", "lsp-del", g.Port)
	}
	if err := g.node.ip("link del dev " + g.NodePort); err != nil {
		g.l.t.Fatalf("guest %s: %v", g.Name, err)
	}
	if err := g.ns.close(); err != nil {
		g.l.t.Fatalf("guest %s: %v", g.Name, err)
	}
}

// forget takes the guest out of the lab, closes its servers and returns its
// processes.
func (l *Lab) forget(g *Guest) []*Process {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.guests, g.Name)
	var mine []*Process
	for _, r := range l.procs {
		if r.host == g.Host {
			mine = append(mine, r.proc)
		}
	}
	for _, s := range l.servers {
		if s.host == g.Host {
			s.shutdown()
		}
	}
	return mine
}
