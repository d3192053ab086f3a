// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"errors"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/ofpunt/chain"
)

// setup only parses: a Corefile that is wrong further down must not have begun anything. The
// callbacks of the instance do the rest.
func setup(c *caddy.Controller) error {
	b, err := chain.NewBlock(c, NotReady)
	if err != nil {
		return plugin.Error(name, err)
	}
	in, ok := c.Get(instanceKey{}).(*instance)
	if !ok {
		in = newInstance()
		c.Set(instanceKey{}, in)
		c.OnStartup(in.build)
		c.OnShutdown(in.stop)
		c.OnRestartFailed(in.rollBack)
		running.parsing.set(c, in)
	}
	in.blocks = append(in.blocks, b)
	return nil
}

type instanceKey struct{}

// TakeOverAfter makes the punt server of a Corefile take over from the one
// before it once every plugin has been started. It names the last of the
// directives, since the stages of OnStartup run in their order. Call it once,
// before caddy starts.
func TakeOverAfter(directive string) {
	caddy.RegisterParsingCallback("dns", directive, func(ctx caddy.Context) error {
		c, in := running.parsing.take(ctx)
		if in == nil {
			return nil
		}
		c.OnStartup(func() error {
			if err := in.takeOver(); err != nil {
				return err
			}
			corefile.OnFailedStart(in.stop)
			return nil
		})
		return in.finishParsing()
	})
}

// CheckAfter takes the place of TakeOverAfter in a process that only checks a
// Corefile: after the last of the directives it compiles the servers, and calls end
// with those that have sockets, and with all that is wrong so far. Nothing is started where end
// returns an error. With node it warns of what this node does not have.
func CheckAfter(directive string, node bool, end func(servers []caddy.Server, wrong error) error) {
	caddy.RegisterParsingCallback("dns", directive, func(ctx caddy.Context) error {
		_, in := running.parsing.take(ctx)
		var all []error
		if in != nil {
			all = append(all, in.finishParsing())
		}
		servers, err := ctx.MakeServers()
		all = append(all, err)
		if in != nil {
			all = append(all, in.build())
			if node {
				in.warnOfNode()
			}
		}
		return end(servers, errors.Join(all...))
	})
}
