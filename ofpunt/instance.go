// SPDX-License-Identifier: Apache-2.0

package ofpunt

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/coredns/coredns/core/dnsserver"
)

// block is one server block with ofpunt.
type block struct {
	file    string
	line    int
	options Options
	// lines has the line of each property that the block gives.
	lines map[string]int
	// words has what the block says of each.
	words map[string][]string
	// explicit is set when the block gives properties, and not just the bridge.
	explicit bool
	// configs has one entry for each zone of the block.
	configs []*dnsserver.Config
}

func (b *block) String() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

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
	given := in.givesUp(serving.instance)
	for _, s := range in.servers {
		if err := s.openAndSettle(given); err != nil {
			for _, t := range in.servers {
				t.close()
			}
			return err
		}
	}
	for _, s := range in.servers {
		bridges.use(s)
	}
	serving.instance = in
	return nil
}

// resume takes the bridges back from an instance that failed after its serve.
func (in *instance) resume() error {
	serving.Lock()
	defer serving.Unlock()
	failed := serving.instance
	if failed == in || in.stopped {
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
			ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
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
