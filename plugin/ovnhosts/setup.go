// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/pkg/fall"
	"github.com/miekg/dns"

	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
)

func init() { plugin.Register(name, setup) }

const (
	defaultSouthbound = "unix:/var/run/ovn/ovnsb_db.sock"
	defaultTTL        = 30
	// maxTTL is the largest TTL of RFC 2181, section 8.
	maxTTL = 1<<31 - 1
)

// setup only parses; the databases are opened on startup.
func setup(c *caddy.Controller) error {
	h, err := parse(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	config := dnsserver.GetConfig(c)
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		h.Next = next
		return h
	})
	c.OnStartup(func() error {
		if err := h.checkTLS(c.File()); err != nil {
			return plugin.Error(name, err)
		}
		h.warn(config)
		started.add(c.Context(), h)
		return h.open()
	})
	c.OnShutdown(h.close)
	c.OnRestartFailed(func() error {
		started.abandon(c.Context())
		return nil
	})
	return nil
}

func (h *Handler) open() error {
	s, err := sources.acquire(h.config)
	if err != nil {
		return plugin.Error(name, err)
	}
	h.source = s
	if h.routers {
		h.forget = append(h.forget, s.JoinNetworks())
	}
	if h.defaultSwitch != "" {
		h.forget = append(h.forget, s.AddNetwork(h.defaultSwitch))
	}
	return nil
}

func (h *Handler) close() error {
	if h.source == nil {
		return nil
	}
	for _, forget := range h.forget {
		forget()
	}
	sources.release(h.source)
	return nil
}

// started has the handlers of the Corefile that was started last. Of a start
// that fails after it has opened databases nobody is told but the Corefile that
// goes on serving.
var started attempt

type attempt struct {
	mu       sync.Mutex
	of       caddy.Context
	handlers []*Handler
}

func (a *attempt) add(of caddy.Context, h *Handler) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of != of {
		a.of, a.handlers = of, nil
	}
	a.handlers = append(a.handlers, h)
}

// abandon closes the handlers of a later Corefile than that which serves.
func (a *attempt) abandon(serving caddy.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == serving {
		return
	}
	for _, h := range a.handlers {
		_ = h.close() // has no error
	}
	a.of, a.handlers = serving, nil
}

// warn tells of a forward that nothing reaches.
func (h *Handler) warn(config *dnsserver.Config) {
	if len(h.Fall.Zones) > 0 || !slices.Contains(h.Zones, ".") {
		return
	}
	for _, after := range []string{"forward", "passthrough"} {
		if config.Handler(after) != nil {
			log.Warningf("ovnhosts takes every name of . and has no fallthrough: nothing reaches %s behind it", after)
		}
	}
}

func parse(c *caddy.Controller) (*Handler, error) {
	h := &Handler{ttl: defaultTTL, config: ovn.Config{Log: log}, lines: map[string]int{}}
	c.Next()
	zones := c.RemainingArgs()
	if err := checkZones(zones); err != nil {
		return nil, c.Err(err.Error())
	}
	h.Zones = plugin.OriginsFromArgsOrServerBlock(zones, c.ServerBlockKeys)
	if len(h.Zones) == 0 {
		return nil, c.Err("expected zones after ovnhosts that are domain names")
	}
	for c.NextBlock() {
		property := c.Val()
		if h.lines[property] != 0 {
			return nil, c.Errf("property %q is given twice, expected once", property)
		}
		h.lines[property] = c.Line()
		if err := h.property(property, c.RemainingArgs()); err != nil {
			return nil, c.Errf("%s: %v", property, err)
		}
	}
	if c.Next() {
		if c.Val() == "{" {
			return nil, c.Err("expected the { at the end of the line before")
		}
		return nil, c.Err("ovnhosts is given twice in one server block, expected once")
	}
	if len(h.config.Southbound)+len(h.config.Northbound) == 0 {
		h.config.Southbound = []string{defaultSouthbound}
	}
	return h, nil
}

// checkTLS looks for the files that the endpoints need.
func (h *Handler) checkTLS(file string) error {
	wrong := func(property, format string, args ...any) error {
		return fmt.Errorf("%s:%d - %s: "+format, append([]any{file, h.lines[property], property}, args...)...)
	}
	if h.config.TLS != (endpoint.TLSFiles{}) {
		if _, err := h.config.TLS.Config(false); err != nil {
			return wrong("tls", "%w; expected PEM files CERT KEY CA", err)
		}
		return nil
	}
	for _, p := range []struct {
		name string
		list []string
	}{{"southbound", h.config.Southbound}, {"northbound", h.config.Northbound}} {
		for _, s := range p.list {
			if e, err := endpoint.Parse(s); err == nil && e.TLS {
				return wrong(p.name, "%q: expected the property tls beside it", s)
			}
		}
	}
	return nil
}

// checkZones refuses what CoreDNS would leave out without a word.
func checkZones(zones []string) error {
	for _, z := range zones {
		if len(plugin.Host(z).NormalizeExact()) == 0 {
			return fmt.Errorf("%q: expected a zone, a domain name or a network", z)
		}
	}
	return nil
}

// property takes the words after one property's name.
func (h *Handler) property(property string, args []string) (err error) {
	one := func(want string) (string, error) {
		if len(args) != 1 {
			return "", fmt.Errorf("%q: expected %s", args, want)
		}
		return args[0], nil
	}
	switch property {
	case "southbound":
		h.config.Southbound, err = endpoints(args)
	case "northbound":
		h.config.Northbound, err = endpoints(args)
	case "monitor":
		v, _ := one("")
		switch v {
		case "local":
			h.config.Monitor = ovn.Local
		case "all":
			h.config.Monitor = ovn.All
		default:
			return fmt.Errorf("%q: expected local or all", args)
		}
	case "tls":
		if len(args) != 3 {
			return fmt.Errorf("%q: expected CERT KEY CA", args)
		}
		h.config.TLS = endpoint.TLSFiles{Cert: args[0], Key: args[1], CA: args[2]}
	case "domain":
		v, err := one("a domain name")
		if err != nil {
			return err
		}
		if _, ok := dns.IsDomainName(v); !ok || dns.CanonicalName(v) == "." {
			return fmt.Errorf("%q: expected a domain name below the root", v)
		}
		h.domain = dns.CanonicalName(v)
	case "ttl":
		v, err := one("seconds")
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil || n > maxTTL {
			return fmt.Errorf("%q: expected whole seconds from 0 to %d", v, maxTTL)
		}
		h.ttl = uint32(n)
	case "scope":
		v, _ := one("")
		switch v {
		case "switch", "router":
			h.routers = v == "router"
		default:
			return fmt.Errorf("%q: expected switch or router", args)
		}
	case "default_switch":
		h.defaultSwitch, err = one("the name of a logical switch")
	case "fallthrough":
		h.Fall = fall.F{}
		h.Fall.SetZonesFromArgs(args)
		return checkZones(args)
	default:
		return fmt.Errorf("unknown property, expected one of %v", propertyNames)
	}
	return err
}

var propertyNames = []string{
	"default_switch", "domain", "fallthrough", "monitor", "northbound",
	"scope", "southbound", "tls", "ttl",
}

// endpoints checks connection methods to dial.
func endpoints(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("expected at least one of %s", endpoint.ActiveForms)
	}
	all, err := endpoint.ParseActive(args)
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(all))
	for i, e := range all {
		texts[i] = e.String()
	}
	return texts, nil
}
