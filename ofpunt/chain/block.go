// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"

	"github.com/puntdns/puntdns/internal/label"
	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/tenantcache"
	"github.com/puntdns/puntdns/ofpunt/watch"
)

// Block is a server block with ofpunt.
type Block struct {
	Directive *config.Directive
	// Configs has an entry per zone. Zones share plugins.
	Configs []*dnsserver.Config

	// index counts blocks from 0.
	index int
	// Prepare sets source, file and reads. Without a Corefile reads has the labels without a key.
	source caddyfile.ServerBlock
	file   string
	reads  *label.Block
	// explains: the filters of Configs report to an explanation.
	explains bool
}

// NewBlock parses the directive ofpunt at c and puts a [Handler] into the block. notReady returns why bridges are not
// served.
func NewBlock(c *caddy.Controller, notReady func() []string) (*Block, error) {
	d, err := config.Parse(c)
	if err != nil {
		return nil, err
	}
	b := &Block{Directive: d, index: c.ServerBlockIndex, reads: &label.Block{Labels: label.All()}}
	zone := dnsserver.GetConfig(c)
	// *bind* comes later in the order and may add a socket.
	zone.ListenHosts = nil
	zone.AddPlugin(func(next plugin.Handler) plugin.Handler {
		return &Handler{Next: next, labels: b.reads.Labels, notReady: notReady, block: b}
	})
	for i := range c.ServerBlockKeys {
		of := *c
		of.ServerBlockKeyIndex = i
		b.Configs = append(b.Configs, dnsserver.GetConfig(&of))
	}
	return b, nil
}

// String returns the file and line of the directive.
func (b *Block) String() string { return b.Directive.At.String() }

// Zones of a block share handlers.
func (b *Block) config() *dnsserver.Config { return b.Configs[0] }

func (b *Block) describe() string {
	return strings.TrimSuffix(fmt.Sprintf("%s - %s", b, b.keys()), " - ")
}

// keys are the zones as in the Corefile. Blocks that import one snippet have one line, and other keys.
func (b *Block) keys() string { return strings.Join(b.source.Keys, " ") }

// watched has the words by which a watcher of queries may name the block.
func (b *Block) watched(zone string) watch.Block {
	at := b.Directive.At
	base := at
	base.File = filepath.Base(at.File)
	out := watch.Block{Name: b.describe(), Words: []string{b.describe(), at.String(), base.String(), zone, strings.TrimSuffix(zone, ".")}}
	out.Words = append(out.Words, b.source.Keys...)
	slices.Sort(out.Words)
	out.Words = slices.DeleteFunc(slices.Compact(out.Words), func(word string) bool { return word == "" })
	for _, l := range b.reads.Labels {
		if _, ok := l.Key(); ok || l.Name == label.Router || l.Name == label.Group {
			out.Labels = append(out.Labels, watch.Label{Name: l.Name, Value: l.Value})
		}
	}
	return out
}

// Prepare checks all blocks of a Corefile and inserts puntdns' handlers between the plugins. Call Prepare between
// parsing and [Compile]. parsed is nil without a known Corefile.
func Prepare(blocks []*Block, file string, parsed []caddyfile.ServerBlock) error {
	var all []error
	for _, b := range blocks {
		if b.index < len(parsed) {
			b.source, b.file = parsed[b.index], file
			b.warnOfTransfers()
			all = append(all, b.readLabels())
		}
	}
	if err := errors.Join(all...); err != nil {
		return err
	}
	for _, b := range blocks {
		o, err := b.cacheOptions(blocks)
		if err != nil {
			continue // Compile reports it, with all other errors
		}
		c := b.config()
		c.Plugin = insertOwnHandlers(c.Plugin, o)
	}
	return nil
}

func (b *Block) cacheOptions(all []*Block) (o tenantcache.Options, err error) {
	bridge, err := config.Agree(directivesOf(OfBridge(all, b.Directive.Bridge.Name)))
	if err != nil {
		return o, err
	}
	o = tenantcache.Options{Scope: bridge.CacheScope, Share: bridge.CacheShare, Block: b.source, Detach: detach, Miss: mayBlock}
	if len(b.source.Tokens) == 0 || len(b.source.Tokens["metadata"]) > 0 {
		for _, l := range b.reads.Labels {
			o.Labels = append(o.Labels, l.Name)
		}
	}
	return o, nil
}

func OfBridge(blocks []*Block, bridge string) (of []*Block) {
	for _, b := range blocks {
		if b.Directive.Bridge.Name == bridge {
			of = append(of, b)
		}
	}
	return of
}

func directivesOf(blocks []*Block) []*config.Directive {
	all := make([]*config.Directive, len(blocks))
	for i, b := range blocks {
		all[i] = b.Directive
	}
	return all
}

// CoreDNS sets the file of imported tokens only.
func (b *Block) locationOf(t caddyfile.Token) string {
	return fmt.Sprintf("%s:%d", cmp.Or(t.File, b.file), t.Line)
}

func (b *Block) dispenser(directive string) caddyfile.Dispenser {
	return caddyfile.NewDispenserTokens("", b.source.Tokens[directive])
}
