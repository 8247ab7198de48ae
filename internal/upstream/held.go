// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/httpx"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/framing"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/translate"
)

// Clients of the Messages API may have the provider keep a conversation (threads)
// and send no more than what is new. Upstreams that do not know of threads would
// take that for the whole, and answer it: what a client wants kept there is sent
// without asking for it, and what goes on from an answer is refused in the words
// by which clients send all of it again.

// threadsBeta is the value of Anthropic-Beta that belongs to a thread.
const threadsBeta = "message-threads-2026-08-12"

// ErrUnheld says that a request goes on from an answer that the upstream has not
// kept, because it keeps none.
var ErrUnheld = errors.New("the upstream holds no threads")

// unheldAnswer is what the Messages API says where a request cannot be part of a
// thread. Clients then send the whole conversation, without asking for one.
const unheldAnswer = `{"type":"error","error":{"type":"invalid_request_error","message":"thread: this upstream holds no message threads (` + threadsBeta +
	`). Send the whole conversation without \u0060thread\u0060.","details":{"error_code":"thread_unsupported_request"}}}`

// RefuseUnheld answers a request that goes on from what the upstream has not kept.
func RefuseUnheld(w http.ResponseWriter) error {
	header := w.Header()
	header["Content-Type"] = []string{"application/json"}
	header["Content-Length"] = []string{strconv.Itoa(len(unheldAnswer))}
	w.WriteHeader(http.StatusBadRequest)
	_, err := io.WriteString(w, unheldAnswer)
	return err
}

// Unheld names what a request asks of its provider alone, which no box has: what is
// kept there, histories that are compacted there, and safety checks. A box would leave
// it out, and answer what is left.
type Unheld string //nolint:errname // it is read as a word: what is asked for is not held

func (u Unheld) Error() string { return string(u) + ": only the provider's own API has it" }

// ProvidersOnly returns what a request asks of its provider alone, "" for nothing.
func ProvidersOnly(v *wire.View) Unheld {
	if h := v.Conversation.Held; h != 0 {
		return Unheld(h.String())
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
		if b := v.Bytes(v.Blocks[i].Span); len(b) > 0 && b[0] == '{' && strings.HasPrefix(gjson.GetBytes(b, "type").Str, "compact") {
			return "compaction"
		}
	}
	return ""
}

// Refuse answers a request that asks for it.
func (u Unheld) Refuse(w http.ResponseWriter, format wire.Format) error {
	return httpx.Fail(w, format, translate.Refusal(u))
}

// CompactsElsewhere reports whether a request asks the provider to compact a
// conversation, and in which format, where what stands behind is another API.
func (p *Profile) CompactsElsewhere(r *http.Request) (f wire.Format, ok bool) {
	if r.Method != http.MethodPost {
		return "", false
	}
	if f, ok = wire.CompactsAt(r.URL.Path); !ok {
		return "", false
	}
	return f, p.Target(f) != f
}

// RefuseCompact answers as an API that compacts no conversations.
func RefuseCompact(w http.ResponseWriter, f wire.Format) error {
	return httpx.Fail(w, f, &translate.Failure{Status: http.StatusNotFound, Message: f.Traits().CompactPath + ": the upstream compacts no conversations", Modelless: true})
}

// Unthread takes the request to keep the conversation out of a request: the body
// has become decoded, and headers must no longer speak of the client's. The returned
// function puts back what was there before.
func Unthread(r *http.Request, raw, body []byte) (out []byte, restore func(), err error) {
	if out, err = wire.Patch(body, wire.Member{Name: "thread"}); err != nil {
		return nil, nil, err
	}
	unswap := httpx.SwapBody(r, out, out) // which others go on with
	withoutBeta(r.Header, threadsBeta)
	return out, func() {
		unswap()
		httpx.SetBody(r, raw)
	}, nil
}

// withoutBeta takes one value out of Anthropic-Beta, in a header map of its own.
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

// Clients take an answer whose id begins as those of the Messages API for one that
// is kept there and go on from it, even if they were told otherwise before.
const (
	keptID   = "msg_"
	unkeptID = "gen_" // as long, so that an event keeps its length
)

// Unkept returns next with answers called by ids that are not those of a provider that keeps them.
func Unkept(next caddyhttp.Handler) caddyhttp.Handler {
	return caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		named := false // by the first event but for pings
		return httpx.NewEditor(w, func(out []byte, e framing.Event) []byte {
			if !named {
				named = renameID(e.Data, "message.id") // which lies in Raw
			}
			return append(out, e.Raw...)
		}, func(body []byte) []byte {
			renameID(body, "id")
			return body
		}).Serve(next, r)
	})
}

// renameID changes the id at a path of an object in its place, and reports whether there is
// one.
func renameID(object []byte, at string) bool {
	id := gjson.GetBytes(object, at)
	if strings.HasPrefix(id.Raw, `"`+keptID) && id.Index > 0 {
		copy(object[id.Index+1:], unkeptID)
	}
	return id.Exists()
}
