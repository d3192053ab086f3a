// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// timeoutFlag ends a tool that waits for what does not come, in seconds.
var timeoutFlag = fmt.Sprintf("--timeout=%.f", Scaled(30*time.Second).Seconds())

// NBCTL runs ovn-nbctl.
func (l *Lab) NBCTL(args ...string) string {
	l.t.Helper()
	return l.Node.must(append([]string{"ovn-nbctl", "--db=" + l.NB, "--no-leader-only", timeoutFlag}, args...)...)
}

// SBCTL runs ovn-sbctl.
func (l *Lab) SBCTL(args ...string) string {
	l.t.Helper()
	return l.Node.must(append([]string{"ovn-sbctl", "--db=" + l.SB, "--no-leader-only", timeoutFlag}, args...)...)
}

// Sync waits until every node has installed what the Northbound database says.
func (l *Lab) Sync() {
	l.t.Helper()
	l.NBCTL("--wait=hv", "sync")
}

// Settle is [Lab.Sync], and [Node.Revalidate] on every node.
func (l *Lab) Settle() {
	l.t.Helper()
	l.Sync()
	for _, n := range l.Nodes {
		n.Revalidate()
	}
}

// AddSwitch creates a logical switch; settings are columns as ovn-nbctl set
// takes them.
func (l *Lab) AddSwitch(name string, settings ...string) {
	l.t.Helper()
	args := []string{"ls-add", name}
	if len(settings) > 0 {
		args = append(append(args, "--", "set", "Logical_Switch", name), settings...)
	}
	l.NBCTL(args...)
}

// RouterPort joins a logical router to a switch.
type RouterPort struct {
	Switch   string
	MAC      string
	Networks []string // addresses of the router with prefix lengths
}

// AddRouter creates a logical router. Its port on switch SW is called NAME-SW,
// the switch's port SW-NAME.
func (l *Lab) AddRouter(name string, ports ...RouterPort) {
	l.t.Helper()
	args := []string{"lr-add", name}
	for _, p := range ports {
		there, here := name+"-"+p.Switch, p.Switch+"-"+name
		args = append(args, "--", "lrp-add", name, there, p.MAC)
		args = append(args, p.Networks...)
		args = append(args,
			"--", "lsp-add", p.Switch, here,
			"--", "lsp-set-type", here, "router",
			"--", "lsp-set-addresses", here, "router",
			"--", "lsp-set-options", here, "router-port="+there)
	}
	l.NBCTL(args...)
}

// AddDNS creates a DNS row with records (name to addresses) for the switches
// and returns its UUID.
func (l *Lab) AddDNS(records map[string]string, switches ...string) string {
	l.t.Helper()
	args := []string{"--id=@dns", "create", "DNS", "records=" + ovsMap(records)}
	for _, sw := range switches {
		args = append(args, "--", "add", "Logical_Switch", sw, "dns_records", "@dns")
	}
	return l.NBCTL(args...)
}

// SouthboundDNS returns the UUID in Southbound of a DNS row of Northbound, see southboundDNS of
// internal/ovn/topology.
func (l *Lab) SouthboundDNS(uuid string) string {
	l.t.Helper()
	if named := l.SBCTL("--bare", "--columns=_uuid", "find", "DNS", "external_ids:dns_id="+uuid); named != "" {
		return named
	}
	return l.SBCTL("--bare", "--columns=_uuid", "list", "DNS", uuid)
}

// SetDNS replaces the records of a DNS row.
func (l *Lab) SetDNS(uuid string, records map[string]string) {
	l.t.Helper()
	if len(records) == 0 {
		l.NBCTL("clear", "DNS", uuid, "records")
		return
	}
	l.NBCTL("set", "DNS", uuid, "records="+ovsMap(records))
}

// ovsMap writes a map in the notation of ovs-vsctl(8), Database Values.
func ovsMap(m map[string]string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q=%q", k, m[k])
	}
	b.WriteByte('}')
	return b.String()
}

// Prefixes parses addresses with their prefix lengths; it is for literals in
// tests and panics on a wrong one.
func Prefixes(ss ...string) []netip.Prefix {
	ps := make([]netip.Prefix, 0, len(ss))
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// Addr parses an address; like [Prefixes] it is for literals.
func Addr(s string) netip.Addr { return netip.MustParseAddr(s) }
