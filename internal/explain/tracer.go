// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"
	"github.com/opentracing/opentracing-go/log"
)

// own is the name of handlers that this project puts between plugins. They have no steps: no Corefile names
// them.
const own = "ofpunt"

// Connect is the name of the span of forward for each upstream that it asks. It is no plugin.
const Connect = "connect"

// span is the opentracing.Span of a step. It keeps nothing but the address that a plugin asks. The
// mocktracer of opentracing keeps spans once they have ended only, but what an operator wants to
// know may be which plugin does not end.
type span struct {
	step *Step
	// shared is set for the span of a handler that has no step: the end of the span is not the end of the
	// step.
	shared bool
}

// spanContext is the opentracing.SpanContext of a span.
type spanContext struct{ step *Step }

// ForeachBaggageItem implements opentracing.SpanContext.
func (spanContext) ForeachBaggageItem(func(k, v string) bool) {}

// Context implements opentracing.Span.
func (s *span) Context() opentracing.SpanContext { return spanContext{s.step} }

// Tracer implements opentracing.Span.
func (s *span) Tracer() opentracing.Tracer { return tracer{s.step} }

// Finish implements opentracing.Span.
func (s *span) Finish() {
	if !s.shared {
		s.step.end()
	}
}

// FinishWithOptions implements opentracing.Span.
func (s *span) FinishWithOptions(opentracing.FinishOptions) { s.Finish() }

// SetTag implements opentracing.Span. The plugin forward sets the address that it asks.
func (s *span) SetTag(key string, value any) opentracing.Span {
	if key == string(ext.PeerAddress) {
		s.step.Notef("%v", value)
	}
	return s
}

// What follows implements opentracing.Span, and does nothing.

func (s *span) SetOperationName(string) opentracing.Span       { return s }
func (s *span) LogFields(...log.Field)                         {}
func (s *span) LogKV(...any)                                   {}
func (s *span) SetBaggageItem(string, string) opentracing.Span { return s }
func (s *span) BaggageItem(string) string                      { return "" }
func (s *span) LogEvent(string)                                {}
func (s *span) LogEventWithPayload(string, any)                {}
func (s *span) Log(opentracing.LogData)                        {}

// tracer is the opentracing.Tracer of the spans below a step.
type tracer struct{ step *Step }

// StartSpan implements opentracing.Tracer.
func (t tracer) StartSpan(name string, options ...opentracing.StartSpanOption) opentracing.Span {
	var all opentracing.StartSpanOptions
	for _, o := range options {
		o.Apply(&all)
	}
	parent := t.step
	for _, r := range all.References {
		if c, ok := r.ReferencedContext.(spanContext); ok {
			parent = c.step
		}
	}
	if name == own {
		return &span{parent, true}
	}
	return &span{step: parent.of.begin(parent, name)}
}

// Inject implements opentracing.Tracer. Nothing of an explanation leaves the process.
func (tracer) Inject(opentracing.SpanContext, any, any) error {
	return fmt.Errorf("explain: %w", opentracing.ErrUnsupportedFormat)
}

// Extract implements opentracing.Tracer.
func (tracer) Extract(any, any) (opentracing.SpanContext, error) {
	return nil, fmt.Errorf("explain: %w", opentracing.ErrSpanContextNotFound)
}
