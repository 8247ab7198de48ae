// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Clients of the Messages API may let the provider retain a conversation (threads) and send only
// new messages. Upstreams without threads would take these messages for the whole conversation. So
// requests to retain a conversation lose that member, and requests that continue a retained
// response get an error upon which clients send the whole conversation.

// threadsBeta is the value of Anthropic-Beta for threads.
const threadsBeta = "message-threads-2026-08-12"

// ErrUnretained says that a request continues a response that the upstream has not retained, because it
// retains none.
var ErrUnretained = errors.New("the upstream holds no threads")

// unretainedAnswer is the Messages API's error for a request that cannot be part of a thread. Clients
// then send the whole conversation, without asking for a thread.
const unretainedAnswer = `{"type":"error","error":{"type":"invalid_request_error","message":"thread: this upstream ` +
	`holds no message threads (` + threadsBeta +
	`). Send the whole conversation without \u0060thread\u0060.","details":{"error_code":"thread_unsupported_request"}}}`

// RefuseUnretained rejects a request that continues a response which the upstream has not retained.
func RefuseUnretained(w http.ResponseWriter) error {
	return httpx.Respond(w, http.StatusBadRequest, "application/json", []byte(unretainedAnswer))
}

// Unsupported names a feature in a request that only the provider has: retained conversations,
// compaction at the provider, safety checks. A local server would ignore the feature and answer the
// rest.
type Unsupported string //nolint:errname // it is read as a word

func (u Unsupported) Error() string { return string(u) + ": only the provider's own API has it" }

// ProvidersOnly returns the provider-only feature that a request asks for, "" for none.
func ProvidersOnly(v *wire.View) Unsupported {
	if h := v.Conversation.Resource; h != 0 {
		return Unsupported(h.String())
	}
	if m := v.Management(); m.Compacts {
		return "context_management"
	}
	if v.Traits().Safeguards && bytes.Contains(v.Raw, []byte(`"safeguards"`)) {
		if o, err := wire.ReadObject(v.Raw, v); err == nil && !rawjson.Value(o.Value("safeguards")).Absent() {
			return "safeguards"
		}
	}
	for i := range v.Blocks {
		if v.Blocks[i].Kind != wire.KindOther {
			continue
		}
		if b := v.Bytes(v.Blocks[i].Span); len(b) > 0 && b[0] == '{' && strings.HasPrefix(gjson.GetBytes(b, "type").Str,
			"compact") {
			return "compaction"
		}
	}
	return ""
}

// Refuse rejects a request that asks for the feature.
func (u Unsupported) Refuse(w http.ResponseWriter, format wire.Format) error {
	return httpx.Fail(w, format, translate.Refusal(u))
}

// CompactsElsewhere reports whether a request asks the provider to compact a conversation, and in
// which format, while the upstream speaks another API.
func (p *Profile) CompactsElsewhere(r *http.Request) (f wire.Format, ok bool) {
	if r.Method != http.MethodPost {
		return "", false
	}
	if f, ok = wire.CompactsAt(r.URL.Path); !ok {
		return "", false
	}
	return f, p.Target(f) != f
}

// RefuseCompact answers as an API that does not compact conversations.
func RefuseCompact(w http.ResponseWriter, f wire.Format) error {
	return httpx.Fail(w, f, &translate.Failure{Status: http.StatusNotFound, Message: f.Traits().CompactPath +
		": the upstream compacts no conversations", Modelless: true})
}

// Unthread removes the request to retain the conversation. The body is decoded by now, so headers
// must not describe the client's body. The returned function restores the request.
func Unthread(r *http.Request, raw, body []byte) (out []byte, restore func(), err error) {
	if out, err = wire.Patch(body, wire.Member{Name: "thread"}); err != nil {
		return nil, nil, err
	}
	unswap := httpx.SwapBody(r, out, out) // other layers continue with it
	withoutBeta(r.Header, threadsBeta)
	return out, func() {
		unswap()
		httpx.SetBody(r, raw)
	}, nil
}

func withoutBeta(h http.Header, beta string) {
	const name = "Anthropic-Beta"
	var kept []string
	for _, line := range h[name] {
		var values []string
		for v := range strings.SplitSeq(line, ",") {
			if v = strings.TrimSpace(v); v != "" && v != beta {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			kept = append(kept, strings.Join(values, ","))
		}
	}
	if delete(h, name); len(kept) > 0 {
		h[name] = kept
	}
}

// Clients take a response with an id of the Messages API for a retained one and continue it, even
// after an error.
const (
	keptID   = "msg_"
	unkeptID = "gen_" // of the same length, so that an event keeps its length
)

// Unkept returns next behind a layer that renames responses, so that clients do not take them for
// retained ones.
func Unkept(next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		named := false // by the first event except pings
		return httpx.NewEditor(w, func(out []byte, e framing.Event) []byte {
			if named {
				return append(out, e.Raw...)
			}
			raw := bytes.Clone(e.Raw) // which belongs to the writer
			if i := bytes.Index(raw, e.Data); i >= 0 {
				named = renameID(raw[i:i+len(e.Data)], "message.id")
			}
			return append(out, raw...)
		}, func(body []byte) []byte {
			renameID(body, "id")
			return body
		}).Serve(next, r)
	})
}

// renameID changes an object's id in place.
func renameID(object []byte, at string) bool {
	id := gjson.GetBytes(object, at)
	if strings.HasPrefix(id.Raw, `"`+keptID) && id.Index > 0 {
		copy(object[id.Index+1:], unkeptID)
	}
	return id.Exists()
}
