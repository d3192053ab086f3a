// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/coredns/caddy"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/ofpunt/placement"
)

// Options are what the ofpunt directive of one bridge says. All server blocks
// that name the bridge share one set.
type Options struct {
	Bridge    string
	OpenFlow  endpoint.Endpoint
	OVSDB     endpoint.Endpoint
	Placement placement.Kind
	// Table and Priority are where the entry flows stand, unless that is found
	// in OVN's pipeline.
	Table    uint8
	Priority uint16
	// Addresses are the resolver addresses; none means any (hijack mode).
	Addresses []netip.AddrPort
	ARP       bool
	// ControllerID is 0 for one of the process's own choice.
	ControllerID uint16
	// Lease is how long the punt outlives its last renewal; 0 for good.
	Lease time.Duration
	// Rate is how many packets per second the switch takes of one guest, and
	// Burst how many at once; 0 is no limit.
	Rate, Burst uint32
	// Concurrent bounds the queries in the chain, ConcurrentPort those of one
	// guest.
	Concurrent, ConcurrentPort int
	Overload                   Overload
	TLS                        endpoint.TLSFiles
}

// Overload is what a query over a limit gets.
type Overload string

const (
	OverloadServfail Overload = "servfail"
	OverloadDrop     Overload = "drop"
)

const (
	// dnsPort is the port of a resolver address that names none (RFC 1035,
	// section 4.2).
	dnsPort = 53
	// defaultConcurrent holds 5 s of 800 queries/s to an upstream that never
	// answers; each takes some 10 KB.
	defaultConcurrent = 4096
	maxConcurrent     = 1 << 16
	// defaultConcurrentPort leaves room for others beside seven guests that
	// ask an upstream that never answers.
	defaultConcurrentPort = 512
	defaultLease          = 15 * time.Second
	// defaultPriority is OpenFlow's for a flow that names none (ovs-ofctl(8)).
	defaultPriority = 32768
	// A lease is a hard_timeout, whole seconds in 16 bits.
	minLease, maxLease = 3 * time.Second, 65535 * time.Second
)

// defaultOptions are the contract's defaults for a bridge.
func defaultOptions(bridge string) Options {
	return Options{
		Bridge:    bridge,
		OpenFlow:  endpoint.Endpoint{Network: "unix", Address: "/var/run/openvswitch/" + bridge + ".mgmt"},
		OVSDB:     endpoint.Endpoint{Network: "unix", Address: "/var/run/openvswitch/db.sock"},
		Placement: placement.OVN,
		Addresses: []netip.AddrPort{
			netip.AddrPortFrom(netip.MustParseAddr("169.254.169.254"), dnsPort),
			netip.AddrPortFrom(netip.MustParseAddr("fd00::254"), dnsPort),
		},
		ARP:            true,
		Lease:          defaultLease,
		Concurrent:     defaultConcurrent,
		ConcurrentPort: defaultConcurrentPort,
		Overload:       OverloadServfail,
	}
}

// hijack reports whether queries to every destination are punted.
func (o *Options) hijack() bool { return len(o.Addresses) == 0 }

// sameConnection reports whether p leaves the OpenFlow connection as it is.
func (o *Options) sameConnection(p *Options) bool {
	return o.OpenFlow == p.OpenFlow && o.TLS == p.TLS && o.ControllerID == p.ControllerID
}

// parseBlock reads the ofpunt directive of one server block.
func parseBlock(c *caddy.Controller) (*block, error) {
	c.Next()
	b := &block{file: c.File(), line: c.Line()}
	args := c.RemainingArgs()
	if len(args) != 1 {
		return nil, c.Errf("expected one bridge name after ofpunt, got %d words", len(args))
	}
	b.options = defaultOptions(args[0])
	b.lines, b.words = map[string]int{}, map[string][]string{}
	for c.NextBlock() {
		name := c.Val()
		parse, ok := properties[name]
		if !ok {
			return nil, c.Errf("unknown property %q, expected one of %v", name, propertyNames())
		}
		if b.lines[name] != 0 {
			return nil, c.Errf("property %q is given twice, expected once", name)
		}
		b.lines[name] = c.Line()
		b.words[name] = c.RemainingArgs()
		if err := parse(&b.options, b.words[name]); err != nil {
			return nil, c.Errf("%s: %v", name, err)
		}
	}
	if c.Next() {
		if c.Val() == "{" {
			return nil, c.Err("expected the { at the end of the line before")
		}
		return nil, c.Err("ofpunt is given twice in one server block, expected once")
	}
	b.explicit = len(b.lines) > 0
	return b, nil
}

// checkTLS looks for the files that the endpoints of the block need.
func (b *block) checkTLS() error {
	wrong := func(property, format string, args ...any) error {
		return fmt.Errorf("%s:%d - ofpunt %s: %s: "+format, append([]any{b.file, b.lines[property], b.options.Bridge, property}, args...)...)
	}
	o := &b.options
	if o.TLS != (endpoint.TLSFiles{}) {
		if _, err := o.TLS.Config(false); err != nil {
			return wrong("tls", "%w; expected PEM files CERT KEY CA", err)
		}
		return nil
	}
	if o.OpenFlow.TLS {
		return wrong("openflow", "%q: expected the property tls beside it", o.OpenFlow)
	}
	if o.OVSDB.TLS {
		return wrong("ovsdb", "%q: expected the property tls beside it", o.OVSDB)
	}
	return nil
}

// properties has the parser of each property's words.
var properties = map[string]func(*Options, []string) error{
	"openflow": func(o *Options, args []string) (err error) {
		o.OpenFlow, err = oneEndpoint(args)
		return err
	},
	"ovsdb": func(o *Options, args []string) (err error) {
		if o.OVSDB, err = oneEndpoint(args); err == nil && o.OVSDB.Listen {
			err = fmt.Errorf("%q: expected an endpoint to connect to, not one to listen on", args[0])
		}
		return err
	},
	"placement":      parsePlacement,
	"address":        parseAddresses,
	"arp":            parseARP,
	"controller_id":  parseControllerID,
	"lease":          parseLease,
	"rate":           parseRate,
	"max_concurrent": parseConcurrent,
	"overload":       parseOverload,
	"tls": func(o *Options, args []string) error {
		if len(args) != 3 {
			return fmt.Errorf("expected CERT KEY CA, got %d words", len(args))
		}
		o.TLS = endpoint.TLSFiles{Cert: args[0], Key: args[1], CA: args[2]}
		return nil
	},
}

func propertyNames() []string {
	names := make([]string, 0, len(properties))
	for n := range properties {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func oneEndpoint(args []string) (endpoint.Endpoint, error) {
	if len(args) != 1 {
		return endpoint.Endpoint{}, fmt.Errorf("expected one of %s, got %d words", endpoint.Forms, len(args))
	}
	return endpoint.Parse(args[0])
}

func parsePlacement(o *Options, args []string) error {
	const want = "expected ovn, neutron or table TABLE [PRIORITY]"
	if len(args) == 0 {
		return fmt.Errorf("%s", want)
	}
	number := func(word string, most uint64) (uint64, error) {
		n, err := strconv.ParseUint(word, 10, 16)
		if err != nil || n > most {
			return 0, fmt.Errorf("%q: expected a number from 0 to %d; %s", word, most, want)
		}
		return n, nil
	}
	kind := placement.Kind(args[0])
	switch {
	case kind == placement.OVN && len(args) == 1:
	case kind == placement.Neutron && len(args) == 1:
		o.Table, o.Priority = placement.NeutronTable, placement.NeutronPriority
	case kind == placement.Table && (len(args) == 2 || len(args) == 3):
		table, err := number(args[1], placement.PrivateTable-1)
		if err != nil {
			return err
		}
		o.Table, o.Priority = uint8(table), defaultPriority
		if len(args) == 3 {
			priority, err := number(args[2], 65535)
			if err != nil {
				return err
			}
			o.Priority = uint16(priority)
		}
	default:
		return fmt.Errorf("%q: %s", args, want)
	}
	o.Placement = kind
	return nil
}

func parseAddresses(o *Options, args []string) error {
	const want = "expected IP[:PORT]... or any"
	if len(args) == 0 {
		return fmt.Errorf("%s", want)
	}
	if slices.Contains(args, "any") {
		if len(args) != 1 {
			return fmt.Errorf("%v: any stands alone, as each address is in it; %s", args, want)
		}
		o.Addresses = nil
		return nil
	}
	o.Addresses = o.Addresses[:0:0]
	for _, s := range args {
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return fmt.Errorf("%q: %s (with a port, IPv6 stands in brackets)", s, want)
			}
			ap = netip.AddrPortFrom(a, dnsPort)
		}
		switch a := ap.Addr(); {
		case a.Zone() != "" || a.Is4In6():
			return fmt.Errorf("%q: expected a plain IPv4 or IPv6 address", s)
		case a.IsUnspecified() || a.IsMulticast() || a.IsLoopback():
			return fmt.Errorf("%q: expected a unicast address that a guest can ask", s)
		case ap.Port() == 0:
			return fmt.Errorf("%q: expected a port from 1 to 65535", s)
		case slices.Contains(o.Addresses, ap):
			return fmt.Errorf("%q is given twice, expected once", s)
		}
		o.Addresses = append(o.Addresses, ap)
	}
	return nil
}

func parseARP(o *Options, args []string) error {
	if len(args) != 1 || args[0] != "on" && args[0] != "off" {
		return fmt.Errorf("%v: expected on or off", args)
	}
	o.ARP = args[0] == "on"
	return nil
}

func parseControllerID(o *Options, args []string) error {
	if len(args) == 1 {
		if n, err := strconv.ParseUint(args[0], 10, 16); err == nil && n > 0 {
			o.ControllerID = uint16(n)
			return nil
		}
	}
	return fmt.Errorf("%v: expected a number from 1 to 65535 (0 is ovn-controller's)", args)
}

func parseLease(o *Options, args []string) error {
	const want = "expected 0 or whole seconds from 3s to 65535s"
	if len(args) != 1 {
		return fmt.Errorf("%v: %s", args, want)
	}
	d, err := time.ParseDuration(args[0])
	if err != nil || d != 0 && (d < minLease || d > maxLease) || d%time.Second != 0 {
		return fmt.Errorf("%q: %s", args[0], want)
	}
	o.Lease = d
	return nil
}

// maxDefaultBurst leaves room for others in the switch's queue of 100 packet-ins.
const maxDefaultBurst = 64

// leastBurst is the part of a rate that a burst must be: Open vSwitch counts in
// milliseconds, and a bucket that is full within one is never filled again (3.1,
// dpif_netdev_meter_set).
const leastBurst = 1000

// maxRate keeps a bucket of Open vSwitch, which counts in thousandths of a
// packet, within 32 bits.
const maxRate = 1 << 20

func parseRate(o *Options, args []string) error {
	const want = "expected off or QPS [BURST], numbers from 1 to 1048576"
	if len(args) == 1 && args[0] == "off" {
		o.Rate, o.Burst = 0, 0
		return nil
	}
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("%v: %s", args, want)
	}
	n := [2]uint32{}
	for i, s := range args {
		v, err := strconv.ParseUint(s, 10, 32)
		if err != nil || v < 1 || v > maxRate {
			return fmt.Errorf("%q: %s", s, want)
		}
		n[i] = uint32(v)
	}
	least := (n[0] + leastBurst - 1) / leastBurst
	switch {
	case len(args) == 1:
		n[1] = max(min(n[0], maxDefaultBurst), least)
	case n[1] < least:
		return fmt.Errorf("%v: expected a BURST of at least %d, a thousandth of QPS", args, least)
	}
	o.Rate, o.Burst = n[0], n[1]
	return nil
}

func parseConcurrent(o *Options, args []string) error {
	const want = "expected N [PER_PORT], numbers from 1 to 65536, PER_PORT at most N"
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("%v: %s", args, want)
	}
	n := [2]int{}
	for i, s := range args {
		v, err := strconv.Atoi(s)
		if err != nil || v < 1 || v > maxConcurrent {
			return fmt.Errorf("%q: %s", s, want)
		}
		n[i] = v
	}
	o.Concurrent = n[0]
	switch {
	case len(args) == 1:
		o.ConcurrentPort = min(defaultConcurrentPort, n[0])
	case n[1] > n[0]:
		return fmt.Errorf("%v: %s", args, want)
	default:
		o.ConcurrentPort = n[1]
	}
	return nil
}

func parseOverload(o *Options, args []string) error {
	if len(args) == 1 {
		switch v := Overload(args[0]); v {
		case OverloadServfail, OverloadDrop:
			o.Overload = v
			return nil
		}
	}
	return fmt.Errorf("%v: expected servfail or drop", args)
}
