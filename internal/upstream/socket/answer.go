// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package socket

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

type answer struct {
	w      http.ResponseWriter
	stream bool
	begun  bool // the client has got some bytes
	frame  []byte
}

func newAnswer(w http.ResponseWriter, stream bool) *answer {
	return &answer{w: w, stream: stream}
}

func (a *answer) take(event []byte, end bool) error {
	failure := gjson.GetBytes(event, "type").Str == "error"
	switch {
	case failure && !a.begun:
		return a.refuse(event)
	// Only the last event has the whole response.
	case !a.stream && !end:
		return nil
	case !a.stream:
		a.w.Header().Set("Content-Type", "application/json")
		return a.write([]byte(gjson.GetBytes(event, "response").Raw))
	case failure:
		event = flat(event)
	}
	if !a.begun {
		a.begun = true
		h := a.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		a.w.WriteHeader(http.StatusOK)
	}
	a.frame = append(append(append(a.frame[:0], "event: "...), gjson.GetBytes(event, "type").Str...), "\ndata: "...)
	at := len(a.frame)
	a.frame = append(append(a.frame, event...), "\n\n"...)
	for i, c := range a.frame[at : len(a.frame)-2] {
		if c == '\n' || c == '\r' { // white space between tokens: strings contain none
			a.frame[at+i] = ' '
		}
	}
	if _, err := a.w.Write(a.frame); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

func (a *answer) write(body []byte) error {
	a.begun = true
	a.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, err := a.w.Write(body)
	return err
}

func (a *answer) refuse(event []byte) error {
	status := int(gjson.GetBytes(event, "status").Int())
	if status < http.StatusBadRequest || status > 599 {
		status = http.StatusInternalServerError
	}
	h := a.w.Header()
	gjson.GetBytes(event, "headers").ForEach(func(k, v gjson.Result) bool {
		name := http.CanonicalHeaderKey(k.Str)
		if forClient(name) && v.Type == gjson.String {
			h.Set(name, v.Str)
		}
		return true
	})
	h.Set("Content-Type", "application/json")
	body := append([]byte(`{"error":`), gjson.GetBytes(event, "error").Raw...)
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	a.begun = true
	a.w.WriteHeader(status)
	_, err := a.w.Write(append(body, '}'))
	return err
}

func forClient(name string) bool {
	// Headers about the connection, and the module's own, end here.
	switch name {
	case "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Set-Cookie", "Trailer", "Transfer-Encoding",
		"Upgrade":
		return false
	}
	return !strings.HasPrefix(name, "X-Llm-Cache-") && !strings.HasPrefix(name, "Llm-Cache-")
}

func flat(event []byte) []byte {
	e := gjson.GetBytes(event, "error")
	out := bytes.NewBufferString(`{"type":"error"`)
	for _, name := range [...]string{"code", "message", "param"} {
		value := e.Get(name).Raw
		if value == "" {
			value = "null"
		}
		out.WriteString(`,` + string(rawjson.Quote(name)) + `:` + value)
	}
	out.WriteByte('}')
	return out.Bytes()
}
