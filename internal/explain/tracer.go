// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"github.com/opentracing/opentracing-go"
	"github.com/opentracing/opentracing-go/ext"
	"github.com/opentracing/opentracing-go/log"
)

// own is the name of this project's handlers between plugins. No Corefile names them, so they have no steps.
const own = "ofpunt"

// Connect is forward's span for each upstream, no plugin.
const Connect = "connect"

// span also shows a plugin that does not end; opentracing's mocktracer keeps only ended spans.
type span struct {
	step *Step
	// shared: a handler without a step, whose end is not the step's end.
	shared bool
}

type spanContext struct{ step *Step }

func (spanContext) ForeachBaggageItem(func(k, v string) bool) {}

func (s *span) Context() opentracing.SpanContext { return spanContext{s.step} }

func (s *span) Tracer() opentracing.Tracer { return tracer{s.step} }

func (s *span) Finish() {
	if !s.shared {
		s.step.end()
	}
}

func (s *span) FinishWithOptions(opentracing.FinishOptions) { s.Finish() }

// SetTag gets the upstream's address from plugin forward.
func (s *span) SetTag(key string, value any) opentracing.Span {
	if key == string(ext.PeerAddress) {
		s.step.Notef("%v", value)
	}
	return s
}

// The methods below only complete the interface.

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

// Inject fails: nothing of an explanation leaves the process.
func (tracer) Inject(opentracing.SpanContext, any, any) error {
	return fmt.Errorf("explain: %w", opentracing.ErrUnsupportedFormat)
}

func (tracer) Extract(any, any) (opentracing.SpanContext, error) {
	return nil, fmt.Errorf("explain: %w", opentracing.ErrSpanContextNotFound)
}
