// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"go.uber.org/goleak"

	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/template"
	_ "github.com/coredns/coredns/plugin/transfer"
	_ "github.com/coredns/coredns/plugin/tsig"
	_ "github.com/coredns/coredns/plugin/view"
	_ "github.com/coredns/coredns/plugin/whoami"
)

type blocksKey struct{}

// directives are in the order of the chain.
const directives = "ofpunt metadata prometheus health ready bind errors log audit dnstap loadbalance unknown tsig rewrite ovnhosts rpz egress transfer ovnforward cache private template header file grpc passthrough forward whoami view"

var starting string

// prepareAndCompile is the first stage of OnStartup: plugins such as *metadata* read the chains in theirs.
func prepareAndCompile(blocks []*Block) error {
	parsed, err := caddyfile.Parse("Corefile", strings.NewReader(starting), nil)
	if err == nil {
		err = Prepare(blocks, "Corefile", parsed)
	}
	if err == nil {
		_, err = Compile(blocks)
	}
	return err
}

func TestMain(m *testing.M) {
	if err := dnsserver.SetDirectives(strings.Fields(directives)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	plugin.Register(name, func(c *caddy.Controller) error {
		b, err := NewBlock(c, func() []string { return nil })
		if err != nil {
			return plugin.Error(name, err)
		}
		all, ok := c.Get(blocksKey{}).(*[]*Block)
		if !ok {
			all = new([]*Block)
			c.Set(blocksKey{}, all)
			c.OnStartup(func() error { return prepareAndCompile(*all) })
		}
		*all = append(*all, b)
		return nil
	})
	caddy.Quiet, dnsserver.Quiet = true, true
	// A proxy's finalizer ends this goroutine at an unknown time.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/coredns/coredns/plugin/pkg/proxy.(*Transport).connManager"))
}
