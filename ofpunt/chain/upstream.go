// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"net/netip"

	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"

	"github.com/puntdns/puntdns/internal/origin"
)

// The plugin forward tells nobody whom it asks but the span of a trace, if there is one, by a tag of a
// span below it. So forward gets a span while somebody watches: that of trace where there is one.

// noteUpstream returns a context by which forward tells s whom it asks, before it does.
func noteUpstream(ctx context.Context, s origin.UpstreamSetter) context.Context {
	outer := opentracing.SpanFromContext(ctx)
	if outer == nil {
		outer = opentracing.NoopTracer{}.StartSpan("")
	}
	return opentracing.ContextWithSpan(ctx, &noteSpan{outer, s})
}

// noteSpan is a span that passes a tag on, beside what it is a span of.
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
