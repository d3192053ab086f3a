// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/ofpunt/config"
	"github.com/puntdns/puntdns/ofpunt/label"
	"github.com/puntdns/puntdns/ofpunt/punt"
	"github.com/puntdns/puntdns/ofpunt/tenantcache"
)

// block is one server block with ofpunt.
type block struct {
	directive *config.Directive
	// configs has one entry for each zone of the block.
	configs []*dnsserver.Config
	// index is the number of the block in the Corefile, from 0.
	index int
	// block is what the Corefile has, empty where it is not known, and file is its name. reads is which
	// labels the block reads: all without a key where the Corefile is not known. They are valid once
	// checkBlocks is done.
	block caddyfile.ServerBlock
	file  string
	reads *label.Block
	// explains is set once the filters of configs say what they have come to.
	explains bool
}

// newBlock returns a block that reads all labels.
func newBlock(d *config.Directive) *block {
	return &block{directive: d, reads: &label.Block{Labels: label.All()}}
}

func (b *block) String() string { return b.directive.At.String() }

// instance is one reading of a Corefile: its blocks with ofpunt, and the servers made of
// them. caddy calls its callbacks in this order:
//
//	start             build, takeOver
//	reload            build(new), takeOver(new), stop(old)
//	failed reload     build(new)?, takeOver(new)?, rollBack(old)?, undoTakeOver(new) after its takeOver
//	failed start      build?, takeOver?, undoTakeOver after takeOver
//	end               stop
type instance struct {
	blocks []*block
	// parsed is set once finishParsing has been called, which TakeOverAfter or CheckAfter have
	// asked for.
	parsed  bool
	servers []*server
	// released is set when the servers have released their databases; serving guards it.
	released bool
}

func newInstance() *instance { return &instance{} }

// serving is the instance whose servers the bridges have now, nil for none. Its lock is held
// while that changes.
var serving struct {
	sync.Mutex
	instance *instance
}

// finishParsing checks the blocks and adds our own handlers to them, once every directive of
// theirs has been read and before any server is made of them.
func (in *instance) finishParsing() error {
	in.parsed = true
	if err := in.checkBlocks(); err != nil {
		return err
	}
	for _, b := range in.blocks {
		o, err := in.cacheOptions(b)
		if err != nil {
			continue // build tells it, with what else is wrong
		}
		// The zones of a block get the plugins of its first one.
		c := b.configs[0]
		c.Plugin = insertOwnHandlers(c.Plugin, o)
	}
	return nil
}

// cacheOptions returns what the handlers around the cache of a block need.
func (in *instance) cacheOptions(b *block) (o tenantcache.Options, err error) {
	bridge, err := config.Agree(directivesOf(in.blocksOf(b.directive.Bridge.Name)))
	if err != nil {
		return o, err
	}
	o = tenantcache.Options{Scope: bridge.CacheScope, Share: bridge.CacheShare, Block: b.block, Detach: detach}
	if len(b.block.Tokens) == 0 || len(b.block.Tokens["metadata"]) > 0 {
		for _, l := range b.reads.Labels {
			o.Labels = append(o.Labels, l.Name)
		}
	}
	return o, nil
}

// blocksOf returns the blocks of a bridge.
func (in *instance) blocksOf(bridge string) (of []*block) {
	for _, b := range in.blocks {
		if b.directive.Bridge.Name == bridge {
			of = append(of, b)
		}
	}
	return of
}

// checkBlocks refuses blocks with a view that compares a label which no query has.
func (in *instance) checkBlocks() error {
	corefile := in.corefile()
	if corefile == nil {
		return nil
	}
	blocks, err := caddyfile.Parse(corefile.Path(), bytes.NewReader(corefile.Body()), nil)
	if err != nil {
		return err
	}
	var all []error
	for _, b := range in.blocks {
		if b.index >= len(blocks) {
			continue
		}
		b.block = blocks[b.index]
		b.warnOfTransfers(corefile.Path())
		all = append(all, b.readLabels(corefile.Path(), blocks[b.index]))
	}
	return errors.Join(all...)
}

// corefile is what the instance was read from. caddy shows a directive its own tokens only, and
// not those of other directives of the block.
func (in *instance) corefile() caddy.Input {
	for _, i := range caddy.Instances() {
		i.StorageMu.RLock()
		of := i.Storage[instanceKey{}]
		i.StorageMu.RUnlock()
		if of == any(in) {
			return i.Caddyfile()
		}
	}
	return nil
}

// build makes the punt servers. It is the first stage of OnStartup, since plugins read the
// compiled chains in their own stages. Its error has all that is wrong with the blocks.
func (in *instance) build() error {
	if !in.parsed {
		b := in.blocks[0]
		return fmt.Errorf("%s - ofpunt %s: this program would serve nobody: no stage behind that of all plugins has the bridges taken over; expected a program whose main calls puntdns.Run (docs/extending.md of puntdns)", b, b.directive.Bridge.Name)
	}
	var all []error
	for i, b := range in.blocks {
		all = append(all, b.directive.CheckTLS())
		if slices.ContainsFunc(in.blocks[:i], func(of *block) bool { return of.directive.Bridge.Name == b.directive.Bridge.Name }) {
			continue
		}
		s, err := newServer(in.blocksOf(b.directive.Bridge.Name))
		if err == nil {
			in.servers = append(in.servers, s)
		}
		all = append(all, err)
	}
	return errors.Join(append(all, in.checkControl())...)
}

// takeOver has this instance's servers answer for the bridges. It is the last stage of
// OnStartup: all plugins have started.
func (in *instance) takeOver() error {
	serving.Lock()
	defer serving.Unlock()
	if err := in.open(); err != nil {
		for _, s := range in.servers {
			s.close()
		}
		return err
	}
	for _, s := range in.servers {
		s.awaitNewDatabases()
		bridges.setServer(s)
		s.setPluginEnabled()
	}
	serving.instance = in
	return nil
}

// open acquires the databases of the servers, and the control socket. A first start does not
// fail where another process has that: it may be handing over.
func (in *instance) open() error {
	for _, s := range in.servers {
		if err := s.open(); err != nil {
			return err
		}
	}
	return useControl(controlPath(in.servers), serving.instance == nil)
}

// undoTakeOver shuts this instance down after a start that has failed behind its takeOver, unless
// the instance before has rolled that back.
func (in *instance) undoTakeOver() error {
	serving.Lock()
	if !in.released {
		for _, s := range in.servers {
			s.clearPluginEnabled()
		}
	}
	serving.Unlock()
	return in.stop()
}

// rollBack has this instance's servers answer again, after the start of another one has failed
// behind its takeOver.
func (in *instance) rollBack() error {
	serving.Lock()
	defer serving.Unlock()
	if in.released {
		return nil
	}
	failed := serving.instance
	if failed != nil && failed != in {
		for _, s := range failed.servers {
			s.clearPluginEnabled()
		}
	}
	for _, s := range in.servers {
		s.setPluginEnabled()
	}
	if err := useControl(controlPath(in.servers), true); err != nil {
		log.Warningf("Control socket: %v", err)
	}
	if failed == in {
		return nil
	}
	for _, s := range in.servers {
		bridges.setServer(s)
	}
	serving.instance = in
	if failed != nil {
		failed.shutDown(in)
		failed.released = true
	}
	return nil
}

// stop shuts this instance down, once. On a reload another one has the bridges by then.
func (in *instance) stop() error {
	serving.Lock()
	defer serving.Unlock()
	if in.released {
		return nil
	}
	successor := serving.instance
	if successor == in {
		successor, serving.instance = nil, nil
	}
	in.shutDown(successor)
	in.released = true
	if successor == nil {
		_ = useControl("", false) // to close it never fails
	}
	return nil
}

// shutDown drains and closes this instance's servers, and the bridges that successor has no
// server for; nil has none. The flows of a bridge go first, so that no query comes, or, where another
// process has them, not for much longer. Then the queries in the chains get their answers, and then
// the connection ends.
func (in *instance) shutDown(successor *instance) {
	var wg sync.WaitGroup
	for _, s := range in.servers {
		wg.Go(func() {
			last := successor == nil || !successor.has(s.options.Name)
			b := bridges.get(s.options.Name)
			if b != nil && last {
				b.withdrawFlows()
				b.answerLastPunts()
			}
			ctx, cancel := context.WithTimeout(context.Background(), punt.DrainTimeout)
			defer cancel()
			s.drain(ctx)
			if last {
				if b != nil {
					b.flush(ctx)
				}
				bridges.remove(s.options.Name)
			}
			s.close()
		})
	}
	wg.Wait()
}

// has reports whether the instance has a server for the bridge.
func (in *instance) has(bridge string) bool {
	return slices.ContainsFunc(in.servers, func(s *server) bool { return s.options.Name == bridge })
}
