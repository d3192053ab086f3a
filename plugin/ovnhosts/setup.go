// SPDX-License-Identifier: Apache-2.0

package ovnhosts

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/authority"
	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/internal/endpoint"
	"github.com/puntdns/puntdns/internal/ovn"
	"github.com/puntdns/puntdns/internal/ovn/ovndb"
	"github.com/puntdns/puntdns/internal/ovn/saved"
)

func init() { plugin.Register(name, setup) }

// setup only parses; OnStartup opens the databases, in the order of internal/lifecycle/reload.go.
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
		if err := h.checkTLS(); err != nil {
			return plugin.Error(name, err)
		}
		h.warn(func(directive string) bool { return config.Handler(directive) != nil })
		h.forwarder, _ = config.Handler("ovnforward").(forwarder)
		corefile.OnFailedStart(h.close)
		return h.open()
	})
	c.OnShutdown(h.close)
	return nil
}

func (h *Handler) open() error {
	s, err := openSources.acquire(h.config, h.Domain)
	if err != nil {
		return plugin.Error(name, err)
	}
	release := s.Request(h.requests())
	h.source = s
	h.release = sync.OnceFunc(func() {
		release()
		openSources.release(s)
	})
	return nil
}

func (h *Handler) requests() ovndb.Requests {
	return ovndb.Requests{Routers: h.routers, Network: h.defaultSwitch}
}

// close undoes open, once. Its error is always nil.
func (h *Handler) close() error {
	if h.release != nil {
		h.release()
	}
	return nil
}

// warn warns of plugins that no query reaches behind this one. has reports whether the block has a directive.
func (h *Handler) warn(has func(directive string) bool) {
	if !has("ofpunt") && h.defaultSwitch.IsZero() {
		return // each query goes to the next plugin
	}
	for _, after := range h.Unreached(h.Zones, has) {
		log.Warningf("%s - %s: it takes every name of . and has no fallthrough: nothing reaches %s behind it", h.directive.At, h.directive, after)
	}
}

// Check returns a start's errors for one server block, without opening databases. It also warns of missing
// sockets and an unwritable snapshot folder. has reports whether the block has a directive.
func Check(c *caddy.Controller, has func(directive string) bool) error {
	h, err := parseAndCheck(c)
	if err != nil {
		return err
	}
	h.warn(has)
	for _, p := range h.peers() {
		if err := p.Endpoint.CheckSocket(!h.directive.Gives(p.Property)); err != nil {
			log.Warning(h.directive.Errorf(p.Property, "%w, and a start waits for it; expected a database of OVN that runs", err))
		}
	}
	if folder := h.config.WarmStart.Folder; folder != "" {
		if err := saved.CheckFolder(folder); err != nil {
			log.Warning(h.directive.Errorf("snapshot", "%w; nothing is saved there as it is now; expected a folder that the user of the process may write to (puntdns.service makes /var/lib/puntdns when it starts)", err))
		}
	}
	return nil
}

// Databases returns the databases of one server block and the requests to them, without opening them. It
// fails for a wrong directive or unreadable TLS files.
func Databases(c *caddy.Controller) (ovndb.Config, ovndb.Requests, error) {
	h, err := parseAndCheck(c)
	if err != nil {
		return ovndb.Config{}, ovndb.Requests{}, err
	}
	return h.Database(), h.requests(), nil
}

func parseAndCheck(c *caddy.Controller) (*Handler, error) {
	h, err := parse(c)
	if err == nil {
		err = h.checkTLS()
	}
	if err != nil {
		return nil, plugin.Error(name, err)
	}
	return h, nil
}

func parse(c *caddy.Controller) (*Handler, error) {
	h := &Handler{Policy: authority.Policy{TTL: authority.DefaultTTL}, config: ovndb.Config{Log: log}}
	parsers := h.Properties()
	maps.Copy(parsers, corefile.TLSParsers(&h.config.TLS))
	for name, parse := range properties {
		parsers[name] = func(words []string) error { return parse(h, words) }
	}
	var err error
	h.directive, err = corefile.Read(c, authority.ZonesParser(&h.Zones, name, c.ServerBlockKeys), parsers)
	if err != nil {
		return nil, err
	}
	if len(h.config.Southbound)+len(h.config.Northbound) == 0 {
		h.config.Southbound = []string{endpoint.OVNSocket("ovnsb_db.sock").String()}
	}
	if h.config.WarmStart.Folder != "" && len(h.config.Southbound) == 0 {
		return nil, h.directive.Errorf("snapshot", "expected southbound too: by northbound alone nothing proves whose a port still is")
	}
	return h, nil
}

func (h *Handler) checkTLS() error { return h.directive.CheckTLS(h.config.TLS, h.peers()...) }

// peers returns the endpoints, which the parsers have checked.
func (h *Handler) peers() (all []corefile.Peer) {
	for _, p := range []struct {
		property  string
		endpoints []string
	}{{"southbound", h.config.Southbound}, {"northbound", h.config.Northbound}} {
		for _, s := range p.endpoints {
			if e, err := endpoint.Parse(s); err == nil {
				all = append(all, corefile.Peer{Property: p.property, Endpoint: e})
			}
		}
	}
	return all
}

// properties has the parsers, except those of authority.Policy and of TLS.
var properties = map[string]func(*Handler, []string) error{
	"southbound": func(h *Handler, args []string) (err error) {
		h.config.Southbound, err = endpoints(args)
		return err
	},
	"northbound": func(h *Handler, args []string) (err error) {
		h.config.Northbound, err = endpoints(args)
		return err
	},
	"monitor": func(h *Handler, args []string) error {
		v, err := corefile.Choice(args, "local", "all")
		h.config.Monitor = ovndb.Local
		if v == "all" {
			h.config.Monitor = ovndb.All
		}
		return err
	},
	"snapshot": func(h *Handler, args []string) (err error) {
		h.config.WarmStart, err = warmStart(args)
		return err
	},
	"scope": func(h *Handler, args []string) error {
		v, err := corefile.Choice(args, "switch", "router")
		h.routers = v == "router"
		return err
	},
	"default_switch": func(h *Handler, args []string) error {
		v, err := corefile.One(args, "the name or the UUID of a logical switch")
		if err == nil {
			h.defaultSwitch, err = ovn.ParseSwitchRef(v)
		}
		return err
	},
}

// defaultMaxAge exceeds some failed starts.
const defaultMaxAge = 5 * time.Minute

// warmStart parses FOLDER [MAX_AGE].
func warmStart(args []string) (w ovndb.WarmStart, err error) {
	if len(args) == 0 || len(args) > 2 || !filepath.IsAbs(args[0]) {
		return w, errors.New("expected FOLDER [MAX_AGE], the folder from the root on")
	}
	w = ovndb.WarmStart{Folder: filepath.Clean(args[0]), MaxAge: defaultMaxAge}
	if len(args) == 2 {
		if w.MaxAge, err = time.ParseDuration(args[1]); err != nil || w.MaxAge < time.Second || w.MaxAge > time.Hour {
			return w, fmt.Errorf("age %q: expected a duration from 1s to 1h", args[1])
		}
	}
	return w, nil
}

// endpoints returns connection methods in canonical form.
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
