// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package httpx

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/metric"
)

// BackgroundPanics counts panics that would have ended the process. The log has the operation.
var BackgroundPanics = metric.Counter("background_panics_total", "Panics, logged, in work that no request waits for.")

// failOpen counts requests and responses that passed unmodified.
var failOpen = metric.CounterOf("fail_open_total",
	"Requests and answers left alone because they could not be read, by reason.", "reason",
	"answer_encoding", "bomb", "content_encoding", "content_type", "decode", "no_room", "overlay", Panic, "parse",
	"signed", "splice", "store")

// FailOpen counts a request or response that passes unmodified.
func FailOpen(reason string) { failOpen.WithLabelValues(reason).Inc() }

// Panic is the reason for [FailOpen] after a panic of ours.
const Panic = "panic"

// Guard runs f, and keeps a panic in it from affecting the client's response.
func Guard(l *zap.Logger, doing string, f func()) {
	defer func() {
		if p := recover(); p != nil {
			Recovered(l, doing, p)
		}
	}()
	f()
}

// Recovered logs and counts a recovered panic in the handling of a request.
func Recovered(l *zap.Logger, doing string, p any) {
	LogPanic(l, doing, p)
	FailOpen(Panic)
}

// Background runs f outside of any request, and keeps a panic in it from ending the process. It
// reports whether f returned. Every goroutine and every timer of ours uses it.
func Background(doing string, f func()) (ended bool) {
	defer func() {
		if p := recover(); p != nil {
			Panicked(doing, p)
		}
	}()
	f()
	return true
}

// Panicked counts and logs a recovered panic in the background.
func Panicked(doing string, p any) {
	BackgroundPanics.Inc()
	LogPanic(caddy.Log().Named("llm_cache"), doing, p)
}

// LogPanic logs the stack of a panic of ours.
func LogPanic(l *zap.Logger, doing string, p any) {
	// The value of a panic may quote a prompt. Only its type is logged, and the text of runtime
	// errors, which has only numbers and types.
	what := fmt.Sprintf("%T", p)
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	l.Error("recovered from a panic", zap.String("doing", doing), zap.String("panic", what),
		zap.ByteString("stack", debug.Stack()))
}
