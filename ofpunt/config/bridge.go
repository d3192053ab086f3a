// SPDX-License-Identifier: Apache-2.0

// Package config reads what the directive ofpunt says of a bridge. It knows no database and no plugin.
package config

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/control/api"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/ofpunt/guests"
	"github.com/puntdns/puntdns/ofpunt/placement"
	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

// Bridge is what the ofpunt directives of one bridge say. All server blocks that name the bridge share one.
type Bridge struct {
	guests.Config
	Name     string
	OpenFlow endpoint.Endpoint
	OVSDB    endpoint.Endpoint
	// Chassis is the name of this chassis, empty for the one that ovn-controller
	// finds.
	Chassis string
	// Table and Priority are the table and the priority of the entry flows. They are unused with
	// placement.OVN, where the table is found in OVN's pipeline.
	Table    uint8
	Priority uint16
	ARP      bool
	// ControllerID is 0 for a random one.
	ControllerID uint16
	// Lease is how long the punt outlives its last renewal; 0 for good.
	Lease time.Duration
	// Grace is how long a guest is served whose binding has vanished while its
	// interface is still there.
	Grace time.Duration
	// Concurrent bounds the queries in the chain, ConcurrentGuest the queries
	// of one guest.
	Concurrent, ConcurrentGuest int
	Overload                    Overload
	// CacheScope is who shares the entries of cache, and CacheShare the part of a cache that
	// one network may fill, in percent.
	CacheScope tenantcache.Scope
	CacheShare int
	// Hedge is how long *forward* waits for the first server of a query before it asks a second one too; 0 for
	// no second one.
	Hedge time.Duration
	// NetworkMetrics is set if metrics count by network, too.
	NetworkMetrics bool
	TLS            endpoint.TLSFiles
	// Control is the path of the control socket, empty for none.
	Control string
	// Why is the zone in which a guest may ask what has become of its last queries, fully qualified and in lower
	// case, empty for none.
	Why string
}

// Overload is what a query over a limit gets.
type Overload string

const (
	OverloadServfail Overload = "servfail"
	OverloadDrop     Overload = "drop"
)

// DefaultLease is Bridge.Lease where the Corefile does not give it.
const DefaultLease = 15 * time.Second

const (
	// defaultConcurrent holds 5 s of 800 queries/s to an upstream that never
	// answers; each takes some 10 KB.
	defaultConcurrent = 4096
	maxConcurrent     = 1 << 16
	// defaultConcurrentGuest leaves room for others beside seven guests that
	// ask an upstream that never answers.
	defaultConcurrentGuest = 512
	// defaultGrace is longer than ovn-controller takes to start, and to bind the ports
	// of a large chassis.
	defaultGrace = 60 * time.Second
	maxGrace     = 24 * time.Hour
	// defaultPriority is OpenFlow's for a flow that names none (ovs-ofctl(8)).
	defaultPriority = 32768
	// A lease is a hard_timeout, whole seconds in 16 bits.
	minLease, maxLease = 3 * time.Second, 65535 * time.Second
	// A shorter wait would send most queries twice. After a longer one *forward* asks the next server by itself.
	minHedge, maxHedge = 10 * time.Millisecond, 2 * time.Second
)

// Default returns the defaults that README.md documents.
func Default(bridge string) Bridge {
	var resolvers []netip.AddrPort
	for _, addr := range api.DefaultResolvers() {
		resolvers = append(resolvers, netip.AddrPortFrom(addr, placement.DNSPort))
	}
	return Bridge{
		Name:            bridge,
		OpenFlow:        endpoint.OVSSocket(bridge + ".mgmt"),
		OVSDB:           endpoint.OVSSocket("db.sock"),
		Config:          guests.Config{Placement: placement.OVN, Resolvers: resolvers},
		ARP:             true,
		Lease:           DefaultLease,
		Grace:           defaultGrace,
		Concurrent:      defaultConcurrent,
		ConcurrentGuest: defaultConcurrentGuest,
		Overload:        OverloadServfail,
		CacheScope:      tenantcache.Shared,
		CacheShare:      tenantcache.DefaultShare,
	}
}

// SameConnection reports whether a reload from o to p can go on with the OpenFlow
// connection.
func (o *Bridge) SameConnection(p *Bridge) bool {
	return o.OpenFlow == p.OpenFlow && o.TLS == p.TLS && o.ControllerID == p.ControllerID
}

// Directive is the directive ofpunt of one server block.
type Directive struct {
	*corefile.Directive
	Bridge Bridge
	// limitsAt are the lines of Bridge.Limits, by their names.
	limitsAt map[string]corefile.Position
}

// Parse reads the directive that c stands at.
func Parse(c *caddy.Controller) (*Directive, error) {
	d := &Directive{}
	var err error
	d.Directive, err = corefile.ReadBlocks(c, func(words []string) error {
		if len(words) != 1 {
			return fmt.Errorf("expected one bridge name after ofpunt, got %d words", len(words))
		}
		d.Bridge = Default(words[0])
		return nil
	}, d.parsers(), d.blocks())
	if err == nil {
		err = d.checkLimits()
	}
	return d, err
}

// parsers has the properties without a block.
func (d *Directive) parsers() map[string]corefile.Parser {
	parsers := make(map[string]corefile.Parser, len(properties))
	for name, parse := range properties {
		parsers[name] = func(words []string) error { return parse(&d.Bridge, words) }
	}
	maps.Copy(parsers, corefile.TLSParsers(&d.Bridge.TLS))
	return parsers
}

// blocks has the properties with a block.
func (d *Directive) blocks() map[string]corefile.BlockParser {
	return map[string]corefile.BlockParser{"limit": d.parseLimit}
}

// HasProperty reports whether ofpunt has a property.
func HasProperty(name string) bool {
	d := &Directive{}
	return d.parsers()[name] != nil || d.blocks()[name] != nil
}

// Agree returns the properties of the bridge that all directives name. Directives without properties agree with
// any. If the properties differ, Agree returns the properties of the first directive that gives any, and errors.
func Agree(all []*Directive) (Bridge, error) {
	var errs []error
	said := all[0]
	for _, d := range all[1:] {
		switch {
		case !d.HasProperties():
		case !said.HasProperties():
			said = d
		case !reflect.DeepEqual(said.Bridge, d.Bridge):
			errs = append(errs, fmt.Errorf("%s - ofpunt %s: other properties than at %s (%s), expected the same or none",
				d.At, d.Bridge.Name, said.At, strings.Join(corefile.Differences(said.Directive, d.Directive), ", ")))
		}
	}
	return said.Bridge, errors.Join(errs...)
}

// CheckTLS returns an error unless the files are there that the endpoints of the directive need.
func (d *Directive) CheckTLS() error {
	return d.Directive.CheckTLS(d.Bridge.TLS, corefile.Peer{Property: "openflow", Endpoint: d.Bridge.OpenFlow}, corefile.Peer{Property: "ovsdb", Endpoint: d.Bridge.OVSDB})
}

// ResolverWords returns the words of the property address, each address with its port.
func (o *Bridge) ResolverWords() []string {
	if o.Hijack() {
		return []string{"any"}
	}
	words := []string{}
	for _, a := range o.Resolvers {
		words = append(words, a.String())
	}
	if o.DHCP {
		words = append(words, "dhcp")
	}
	if o.Gateways {
		words = append(words, "gateway")
	}
	return words
}

// properties has the parser of each property's words.
var properties = map[string]func(*Bridge, []string) error{
	"openflow": func(o *Bridge, args []string) (err error) {
		o.OpenFlow, err = oneEndpoint(args)
		return err
	},
	"ovsdb": func(o *Bridge, args []string) (err error) {
		if o.OVSDB, err = oneEndpoint(args); err == nil && o.OVSDB.Listen {
			err = fmt.Errorf("%q: expected an endpoint to connect to, not one to listen on", args[0])
		}
		return err
	},
	"chassis":        parseChassis,
	"placement":      parsePlacement,
	"address":        parseAddresses,
	"arp":            parseARP,
	"controller_id":  parseControllerID,
	"lease":          parseLease,
	"grace":          parseGrace,
	"fail":           parseFail,
	"rate":           parseRate,
	"max_concurrent": parseConcurrent,
	"overload":       parseOverload,
	"cache_scope":    parseCacheScope,
	"cache_share":    parseCacheShare,
	"hedge":          parseHedge,
	"metrics":        parseMetrics,
	"control":        parseControl,
	"why":            parseWhy,
}

func oneEndpoint(args []string) (endpoint.Endpoint, error) {
	if len(args) != 1 {
		return endpoint.Endpoint{}, fmt.Errorf("expected one of %s, got %d words", endpoint.Forms, len(args))
	}
	return endpoint.Parse(args[0])
}

func parseChassis(o *Bridge, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return fmt.Errorf("%q: expected the name of the chassis in OVN, one word", args)
	}
	o.Chassis = args[0]
	return nil
}

func parsePlacement(o *Bridge, args []string) error {
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

func parseAddresses(o *Bridge, args []string) error {
	const want = "expected IP[:PORT]..., dhcp, gateway, or any"
	if len(args) == 0 {
		return fmt.Errorf("%s", want)
	}
	o.ResolversGiven = true
	if slices.Contains(args, "any") {
		if len(args) != 1 {
			return fmt.Errorf("%v: any stands alone, as each address is in it; %s", args, want)
		}
		o.Resolvers = nil
		return nil
	}
	o.Resolvers = o.Resolvers[:0:0]
	for i, s := range args {
		switch {
		case s != "dhcp" && s != "gateway":
		case slices.Contains(args[:i], s):
			return fmt.Errorf("%q is given twice, expected once", s)
		default:
			o.DHCP, o.Gateways = o.DHCP || s == "dhcp", o.Gateways || s == "gateway"
			continue
		}
		ap, err := netip.ParseAddrPort(s)
		if err != nil {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return fmt.Errorf("%q: %s (with a port, IPv6 stands in brackets)", s, want)
			}
			ap = netip.AddrPortFrom(a, placement.DNSPort)
		}
		switch a := ap.Addr(); {
		case a.Zone() != "" || a.Is4In6():
			return fmt.Errorf("%q: expected a plain IPv4 or IPv6 address", s)
		case a.IsUnspecified() || a.IsMulticast() || a.IsLoopback():
			return fmt.Errorf("%q: expected a unicast address that a guest can ask", s)
		case ap.Port() == 0:
			return fmt.Errorf("%q: expected a port from 1 to 65535", s)
		case slices.Contains(o.Resolvers, ap):
			return fmt.Errorf("%q is given twice, expected once", s)
		}
		o.Resolvers = append(o.Resolvers, ap)
	}
	return nil
}

// dnsPorts are the ports that a resolver is likely to be asked at. Without 53: it is the default,
// and addresses of DNS servers end in it.
var dnsPorts = []string{"1053", "5353"}

// meantAddress returns what an address without brackets is likely to be meant for, if its last
// group looks like a port; empty if it does not.
func meantAddress(word string) string {
	i := strings.LastIndexByte(word, ':')
	if i < 0 || !slices.Contains(dnsPorts, word[i+1:]) {
		return ""
	}
	if _, err := netip.ParseAddr(word); err != nil {
		return "" // it has a port
	}
	if a, err := netip.ParseAddr(word[:i]); err != nil || !a.Is6() {
		return ""
	}
	return fmt.Sprintf("[%s]:%s", word[:i], word[i+1:])
}

// Warnings returns the properties that are probably a mistake: addresses whose last group looks like a port.
func (d *Directive) Warnings() (all []error) {
	for _, word := range d.PropertyWords("address") {
		if meant := meantAddress(word); meant != "" {
			all = append(all, d.Errorf("address", "%q is an IPv6 address without a port; expected %s if the last number is one, else [%s]:%d", word, meant, word, placement.DNSPort))
		}
	}
	return all
}

func parseARP(o *Bridge, args []string) error {
	v, err := corefile.Choice(args, "on", "off")
	o.ARP = v == "on"
	return err
}

func parseControllerID(o *Bridge, args []string) error {
	if len(args) == 1 {
		if n, err := strconv.ParseUint(args[0], 10, 16); err == nil && n > 0 {
			o.ControllerID = uint16(n)
			return nil
		}
	}
	return fmt.Errorf("%v: expected a number from 1 to 65535 (0 is ovn-controller's)", args)
}

func parseLease(o *Bridge, args []string) (err error) {
	o.Lease, err = corefile.Duration(args, "0 or whole seconds from 3s to 65535s", func(d time.Duration) bool {
		return d == 0 || d >= minLease && d <= maxLease && d%time.Second == 0
	})
	return err
}

func parseGrace(o *Bridge, args []string) (err error) {
	o.Grace, err = corefile.Duration(args, "one duration from 0 to 24h", func(d time.Duration) bool {
		return d >= 0 && d <= maxGrace
	})
	return err
}

func parseFail(o *Bridge, args []string) (err error) {
	o.FailClosed, err = parseFailWords(args)
	return err
}

// parseFailWords parses the words of the property fail, of the bridge or of a limit.
func parseFailWords(args []string) (closed bool, err error) {
	v, err := corefile.Choice(args, "open", "closed")
	return v == "closed", err
}

// defaultWhy is the zone of the property why without one.
const defaultWhy = "why.puntdns."

func parseWhy(o *Bridge, args []string) error {
	const want = "expected no word, or the zone in which a guest asks"
	switch len(args) {
	case 0:
		o.Why = defaultWhy
		return nil
	case 1:
	default:
		return fmt.Errorf("%v: %s", args, want)
	}
	if _, ok := dns.IsDomainName(args[0]); !ok || dns.Fqdn(args[0]) == "." {
		return fmt.Errorf("%q: %s", args[0], want)
	}
	o.Why = strings.ToLower(dns.Fqdn(args[0]))
	return nil
}

func parseConcurrent(o *Bridge, args []string) error {
	n, err := parseConcurrentWords(args)
	if err != nil {
		return err
	}
	o.Concurrent, o.ConcurrentGuest = n[0], min(defaultConcurrentGuest, n[0])
	if len(n) == 2 {
		o.ConcurrentGuest = n[1]
	}
	return nil
}

// parseConcurrentWords parses the words of the property max_concurrent, of the bridge or of a
// limit: one number, or two.
func parseConcurrentWords(args []string) (n []int, err error) {
	const want = "expected N [PER_PORT], numbers from 1 to 65536, PER_PORT at most N"
	if len(args) < 1 || len(args) > 2 {
		return nil, fmt.Errorf("%v: %s", args, want)
	}
	for _, s := range args {
		v, err := strconv.Atoi(s)
		if err != nil || v < 1 || v > maxConcurrent {
			return nil, fmt.Errorf("%q: %s", s, want)
		}
		n = append(n, v)
	}
	if len(n) == 2 && n[1] > n[0] {
		return nil, fmt.Errorf("%v: %s", args, want)
	}
	return n, nil
}

func parseOverload(o *Bridge, args []string) error {
	v, err := corefile.Choice(args, string(OverloadServfail), string(OverloadDrop))
	o.Overload = Overload(v)
	return err
}

func parseCacheScope(o *Bridge, args []string) error {
	v, err := corefile.Choice(args, string(tenantcache.Shared), string(tenantcache.Network), string(tenantcache.Port))
	o.CacheScope = tenantcache.Scope(v)
	return err
}

func parseMetrics(o *Bridge, args []string) error {
	_, err := corefile.Choice(args, "network")
	o.NetworkMetrics = err == nil
	return err
}

func parseCacheShare(o *Bridge, args []string) error {
	const want = "a number from 1 to 100, percent of the cache"
	word, err := corefile.One(args, want)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 || n > 100 {
		return fmt.Errorf("%q: expected %s", word, want)
	}
	o.CacheShare = n
	return nil
}

func parseHedge(o *Bridge, args []string) (err error) {
	o.Hedge, err = corefile.Duration(args, "one duration from 10ms to 2s", func(d time.Duration) bool {
		return d >= minHedge && d <= maxHedge
	})
	return err
}

func parseRate(o *Bridge, args []string) (err error) {
	o.RateGiven = true
	o.Rate, err = parseRateLimit(args)
	return err
}

// parseRateLimit parses the words of the property rate, of the bridge or of a limit.
func parseRateLimit(args []string) (r guests.Rate, err error) {
	const want = "expected off or QPS [BURST], numbers from 1 to 1048576"
	if len(args) == 1 && args[0] == "off" {
		return r, nil
	}
	if len(args) < 1 || len(args) > 2 {
		return r, fmt.Errorf("%v: %s", args, want)
	}
	n := [2]uint32{}
	for i, s := range args {
		v, err := strconv.ParseUint(s, 10, 32)
		if err != nil || v < 1 || v > guests.MaxRate {
			return r, fmt.Errorf("%q: %s", s, want)
		}
		n[i] = uint32(v)
	}
	r = guests.NewRate(n[0])
	if len(args) == 2 {
		if least := guests.LeastBurst(n[0]); n[1] < least {
			return r, fmt.Errorf("%v: expected a BURST of at least %d, a thousandth of QPS", args, least)
		}
		r.Burst = n[1]
	}
	return r, nil
}

// parseControl parses the property control.
func parseControl(o *Bridge, args []string) error {
	const want = "unix:PATH with an absolute path"
	word, err := corefile.One(args, want)
	if err != nil {
		return err
	}
	path, ok := strings.CutPrefix(word, "unix:")
	if !ok || !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%q: expected %s", word, want)
	}
	o.Control = path
	return nil
}
