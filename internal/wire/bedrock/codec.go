// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package bedrock knows Claude on Amazon Bedrock: the Messages API under other
// addresses, with the model in the path, its version in the body, and streams whose
// events lie in the chunks of an event stream of AWS
// (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-anthropic-claude-messages.html).
package bedrock

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/anthropic"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/hidden"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Format is the format's name.
const Format wire.Format = "anthropic_bedrock"

// Codec is Claude on Amazon Bedrock: POST …/model/{id}/invoke and
// …/model/{id}/invoke-with-response-stream.
type Codec struct{ anthropic.Codec }

// Traits implements [wire.Codec]. Threads are the provider's own API's, and nothing but
// chunks may stand in a stream.
func (c Codec) Traits() wire.Traits {
	t := c.Codec.Traits()
	t.Variant, t.Threads, t.RequestID = true, false, "X-Amzn-Requestid"
	t.Framing, t.BareStreams, t.Heartbeat = Chunks{}, true, ""
	return t
}

const (
	models = "/model/"
	whole  = "/invoke"
	stream = "/invoke-with-response-stream"
)

// Match implements [wire.Codec].
func (c Codec) Match(path string) bool {
	_, _, _, ok := c.Address(path) //nolint:dogsled // what it says matters elsewhere
	return ok
}

// Address implements [wire.Addresser]. It goes by the path as it is decoded: the id may
// be the ARN of an inference profile, with slashes in it, which does not say whose model
// it stands for. Other models than Claude have other bodies.
func (Codec) Address(path string) (base, model string, streams, ok bool) {
	rest, streams := strings.CutSuffix(path, stream)
	if !streams {
		if rest, ok = strings.CutSuffix(path, whole); !ok {
			return "", "", false, false
		}
	}
	at := strings.Index(rest, models)
	if at < 0 {
		return "", "", false, false
	}
	at += len(models)
	model = rest[at:]
	if !strings.HasPrefix(model, "arn:") && !strings.Contains(model, "anthropic.") {
		return "", "", false, false
	}
	return rest[:at], model, streams, true
}

// MatchCount implements [wire.TokenCounter]: Bedrock counts tokens of bodies in base64
// (…/model/{id}/count-tokens), which is left to it.
func (Codec) MatchCount(string) bool { return false }

// Reader implements [wire.Codec].
func (c Codec) Reader(to wire.Sink) wire.AnswerReader { return &reader{c.Codec.Reader(to), to} }

// reader reads streams in which what has a name is no chunk but an exception.
type reader struct {
	wire.AnswerReader
	to wire.Sink
}

// Event implements [wire.AnswerReader].
func (r *reader) Event(root gjson.Result, name string) {
	if name != "" {
		r.to.Take(&wire.Event{Kind: wire.EventError, Data: root.Raw, Name: name})
		return
	}
	r.AnswerReader.Event(root, name)
}

// AppendFailure implements [translate.Dialect].
func (Codec) AppendFailure(b []byte, _ *translate.Failure, _ translate.Words, text string) []byte {
	return append(rawjson.AppendQuoted(append(b, `{"message":`...), text), '}')
}

// Intercept implements [hidden.Codec].
func (c Codec) Intercept(r *hidden.Message) hidden.Interception {
	return interception{c.Codec.Intercept(r)}
}

// interception tells of failures as the API does.
type interception struct{ hidden.Interception }

// exceptions are the names of what went wrong, by those of the Messages API
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html).
var exceptions = map[string]string{
	"invalid_request_error": "validationException", "rate_limit_error": "throttlingException",
	"overloaded_error": "serviceUnavailableException", "timeout_error": "modelTimeoutException",
}

// Failure implements [hidden.Interception].
func (interception) Failure(kind, message string) []byte {
	name := exceptions[kind]
	if name == "" {
		name = "internalServerException"
	}
	return Chunks{}.AppendException(nil, name, rawjson.Object("message", message))
}
