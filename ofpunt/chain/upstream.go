// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"net/netip"

	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"

	"github.com/puntdns/puntdns/internal/origin"
)

// *forward* names its upstream only in a tag of a span below the query's span. So each explanation and watcher gives
// *forward* a span: the span of *trace*, if any.

// noteUpstream returns a context with which *forward* reports its upstream to s before it asks.
func noteUpstream(ctx context.Context, s origin.UpstreamSetter) context.Context {
	outer := opentracing.SpanFromContext(ctx)
	if outer == nil {
		outer = opentracing.NoopTracer{}.StartSpan("")
	}
	return opentracing.ContextWithSpan(ctx, &noteSpan{outer, s})
}

// noteSpan also reports peer.address to a setter.
type noteSpan struct {
	opentracing.Span
	setter origin.UpstreamSetter
}

func (s *noteSpan) Tracer() opentracing.Tracer { return &noteTracer{s.Span.Tracer(), s.setter} }

func (s *noteSpan) SetTag(key string, value any) opentracing.Span {
	if text, ok := value.(string); ok && key == string(ext.PeerAddress) {
		if a, err := netip.ParseAddrPort(text); err == nil {
			s.setter.SetUpstream(a)
		}
	}
	s.Span.SetTag(key, value)
	return s
}

type noteTracer struct {
	opentracing.Tracer
	setter origin.UpstreamSetter
}

func (t *noteTracer) StartSpan(name string, options ...opentracing.StartSpanOption) opentracing.Span {
	return &noteSpan{t.Tracer.StartSpan(name, options...), t.setter}
}
