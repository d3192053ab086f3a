// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"net/netip"

	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"

	"github.com/puntdns/puntdns/internal/origin"
)

// *forward* names its upstream only in a tag of a span, below the span of a trace. So *forward* gets a span
// while somebody wants to know: the span of *trace* if there is one.

// noteUpstream returns a context by which *forward* gives s its upstream, before *forward* asks.
func noteUpstream(ctx context.Context, s origin.UpstreamSetter) context.Context {
	outer := opentracing.SpanFromContext(ctx)
	if outer == nil {
		outer = opentracing.NoopTracer{}.StartSpan("")
	}
	return opentracing.ContextWithSpan(ctx, &noteSpan{outer, s})
}

// noteSpan is a span that also gives a tag to a setter.
type noteSpan struct {
	opentracing.Span
	setter origin.UpstreamSetter
}

// Tracer implements opentracing.Span.
func (s *noteSpan) Tracer() opentracing.Tracer { return &noteTracer{s.Span.Tracer(), s.setter} }

// SetTag implements opentracing.Span.
func (s *noteSpan) SetTag(key string, value any) opentracing.Span {
	if text, ok := value.(string); ok && key == string(ext.PeerAddress) {
		if a, err := netip.ParseAddrPort(text); err == nil {
			s.setter.SetUpstream(a)
		}
	}
	s.Span.SetTag(key, value)
	return s
}

// noteTracer begins the spans below a noteSpan.
type noteTracer struct {
	opentracing.Tracer
	setter origin.UpstreamSetter
}

// StartSpan implements opentracing.Tracer.
func (t *noteTracer) StartSpan(name string, options ...opentracing.StartSpanOption) opentracing.Span {
	return &noteSpan{t.Tracer.StartSpan(name, options...), t.setter}
}
