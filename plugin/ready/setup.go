// SPDX-License-Identifier: Apache-2.0

package ready

import (
	"fmt"
	"net"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/corefile"
)

const defaultAddress = ":8181"

func init() { plugin.Register(name, setup) }

type monitorKey struct{}

func setup(c *caddy.Controller) error {
	address, continuously, err := parse(c)
	if err != nil {
		return plugin.Error(name, err)
	}
	m, ok := c.Get(monitorKey{}).(*monitor)
	if !ok {
		m = &monitor{}
		c.Set(monitorKey{}, m)
		c.OnStartup(func() error {
			corefile.OnFailedStart(m.stop)
			return m.start()
		})
		c.OnRestart(m.stop)
		c.OnRestartFailed(m.start)
		c.OnFinalShutdown(m.stop)
	}
	if !slices.Contains(m.addresses, address) {
		m.addresses = append(m.addresses, address)
	}
	m.configs = append(m.configs, dnsserver.GetConfig(c))
	m.continuously = continuously
	return nil
}

func parse(c *caddy.Controller) (address string, continuously bool, err error) {
	address = defaultAddress
	_, err = corefile.Read(c, func(words []string) error {
		switch len(words) {
		case 0:
			return nil
		case 1:
			address = words[0]
			if _, _, err := net.SplitHostPort(address); err != nil {
				return fmt.Errorf("%q: expected [HOST]:PORT: %w", address, err)
			}
			return nil
		}
		return fmt.Errorf("expected one address at most, got %d words", len(words))
	}, map[string]corefile.Parser{"monitor": func(words []string) error {
		const want = "expected until-ready or continuously"
		if len(words) != 1 {
			return fmt.Errorf("%s, got %d words", want, len(words))
		}
		if continuously = words[0] == "continuously"; !continuously && words[0] != "until-ready" {
			return fmt.Errorf("%q: %s", words[0], want)
		}
		return nil
	}})
	return address, continuously, err
}
