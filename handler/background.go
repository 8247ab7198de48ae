// Copyright 2026 The llm_cache Authors
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

package handler

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llm-cache/caddy-llm-cache/metric"
)

// backgroundPanics counts what would have ended the process.
var backgroundPanics = metric.CounterVec("background_panics_total", "Panics in work that no request waits for, by what was being done.", "doing")

// background runs f, which no request waits for, and keeps a panic in it from
// ending the process. It tells whether f came to its end. Every goroutine and every
// timer of ours begins with it.
func background(doing string, f func()) (ended bool) {
	defer func() {
		if p := recover(); p != nil {
			panicked(doing, p)
		}
	}()
	f()
	return true
}

// panicked counts and logs a panic that was recovered from in the background.
func panicked(doing string, p any) {
	backgroundPanics.WithLabelValues(doing).Inc()
	logPanic(caddy.Log().Named("llm_cache"), doing, p)
}

// logPanic logs where a panic of our own came from. The value of a panic may
// quote a prompt, so only its type is logged, and the text of runtime errors,
// which holds nothing but numbers and types.
func logPanic(l *zap.Logger, doing string, p any) {
	what := fmt.Sprintf("%T", p)
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	l.Error("recovered from a panic", zap.String("doing", doing), zap.String("panic", what), zap.ByteString("stack", debug.Stack()))
}
