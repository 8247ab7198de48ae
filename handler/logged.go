// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package handler

import "go.uber.org/zap/zapcore"

// logged are the access log fields of a request: caller, tokens and cost, never content.
type logged struct {
	session, user, model, outcome  string
	prompt, cached, output, saved  int64
	cost, own                      float64
	settled, priced, cachedGuessed bool
}

// MarshalLogObject implements [zapcore.ObjectMarshaler]. It is asked when the log line is
// written, after the answer.
func (l *logged) MarshalLogObject(e zapcore.ObjectEncoder) error {
	e.AddString("llm_session", l.session)
	e.AddString("llm_user", l.user)
	e.AddString("llm_model", l.model)
	if !l.settled {
		return nil
	}
	e.AddString("llm_outcome", l.outcome)
	e.AddInt64("llm_prompt_tokens", l.prompt)
	e.AddInt64("llm_cached_tokens", l.cached)
	if l.cachedGuessed {
		e.AddBool("llm_cached_estimated", true)
	}
	e.AddInt64("llm_output_tokens", l.output)
	e.AddInt64("llm_saved_tokens", l.saved)
	if l.priced { // no price is not a price of 0
		e.AddFloat64("llm_cost_usd", l.cost)
		e.AddFloat64("llm_saved_usd", l.own-l.cost)
	}
	return nil
}
