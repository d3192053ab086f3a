// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/coredns/caddy"
	"github.com/coredns/caddy/caddyfile"
	"github.com/coredns/coredns/core/dnsserver"

	"github.com/puntdns/puntdns/internal/corefile"
	"github.com/puntdns/puntdns/ofpunt/punt"
)

// block is one server block with ofpunt.
type block struct {
	directive *corefile.Directive
	options   Options
	// configs has one entry for each zone of the block.
	configs []*dnsserver.Config
	// index is the number of the block in the Corefile, from 0.
	index int
}

func (b *block) String() string { return b.directive.At.String() }

// instance is what one reading of the Corefile says of punts. Its callbacks come
// in this order:
//
//	start    build, serve
//	reload   build(new), serve(new), stop(old)
//	failed   build(new)?, serve(new)?, resume(old)
//	end      stop
type instance struct {
	blocks  []*block
	servers []*server
	// stopped is set when the servers have let go of their databases.
	stopped bool
}

func newInstance() *instance { return &instance{} }

// serving is the instance that holds the bridges now.
var serving struct {
	sync.Mutex
	instance *instance
}

// parsed takes the blocks once every directive of theirs has been read, and before
// any server is made of them.
func (in *instance) parsed() error {
	if err := in.checkAskers(); err != nil {
		return err
	}
	for _, b := range in.blocks {
		// The zones of a block get the plugins of its first one.
		c := b.configs[0]
		c.Plugin = withGuards(c.Plugin)
	}
	return nil
}

// checkAskers refuses blocks whose cache would give others what is for one asker, and
// those whose view can't tell one from another.
func (in *instance) checkAskers() error {
	corefile := in.corefile()
	if corefile == nil {
		return nil
	}
	blocks, err := caddyfile.Parse(corefile.Path(), bytes.NewReader(corefile.Body()), nil)
	if err != nil {
		return err
	}
	for _, b := range in.blocks {
		if b.index >= len(blocks) {
			continue
		}
		if cache, p, found := sharedAnswer(blocks[b.index]); found {
			return sharedError(corefile.Path(), b, cache, p)
		}
		if err := b.checkLabels(corefile.Path(), blocks[b.index]); err != nil {
			return err
		}
	}
	return nil
}

// corefile is what the instance was read from: a directive is told its own words only.
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

// build makes the punt servers. It is the first stage of OnStartup: plugins read
// the compiled chains in their own.
func (in *instance) build() error {
	for _, b := range in.blocks {
		if err := b.checkTLS(); err != nil {
			return err
		}
		if slices.ContainsFunc(in.servers, func(s *server) bool { return s.options.Bridge == b.options.Bridge }) {
			continue
		}
		var of []*block
		for _, o := range in.blocks {
			if o.options.Bridge == b.options.Bridge {
				of = append(of, o)
			}
		}
		s, err := newServer(of)
		if err != nil {
			return err
		}
		in.servers = append(in.servers, s)
	}
	return nil
}

// serve gives the bridges to this instance. It is the last stage of OnStartup.
func (in *instance) serve() error {
	serving.Lock()
	defer serving.Unlock()
	for _, s := range in.servers {
		if err := s.open(); err != nil {
			for _, t := range in.servers {
				t.close()
			}
			return err
		}
	}
	for _, s := range in.servers {
		s.awaitDatabases()
		bridges.use(s)
		s.showEnabled()
	}
	serving.instance = in
	return nil
}

// resume takes the bridges back from an instance that failed after its serve.
func (in *instance) resume() error {
	serving.Lock()
	defer serving.Unlock()
	if in.stopped {
		return nil
	}
	failed := serving.instance
	if failed != nil && failed != in {
		for _, s := range failed.servers {
			s.hideEnabled()
		}
	}
	for _, s := range in.servers {
		s.showEnabled()
	}
	if failed == in {
		return nil
	}
	for _, s := range in.servers {
		bridges.use(s)
	}
	serving.instance = in
	if failed != nil {
		failed.leave(in)
	}
	return nil
}

// stop ends what this instance still holds: on a reload the queries in its
// chains, at the end the bridges too.
func (in *instance) stop() error {
	serving.Lock()
	defer serving.Unlock()
	heir := serving.instance
	if heir == in {
		heir, serving.instance = nil, nil
	}
	in.leave(heir)
	in.stopped = true
	return nil
}

// leave closes the bridges that heir does not serve, and then this instance's
// servers. It waits for queries that are in their chains.
func (in *instance) leave(heir *instance) {
	var wg sync.WaitGroup
	for _, s := range in.servers {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), punt.DrainTimeout)
			defer cancel()
			last := heir == nil || !heir.has(s.options.Bridge)
			b := bridges.get(s.options.Bridge)
			if b != nil && last {
				b.leave(ctx)
			}
			s.drain(ctx)
			if last {
				if b != nil {
					b.flush(ctx)
				}
				bridges.remove(s.options.Bridge)
			}
			s.close()
		})
	}
	wg.Wait()
}

func (in *instance) has(bridge string) bool {
	return slices.ContainsFunc(in.servers, func(s *server) bool { return s.options.Bridge == bridge })
}
