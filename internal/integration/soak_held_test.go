// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire"
)

// heldSites are those that clients meet which send no more than what is new. The first
// of each kind is bare Caddy before a provider that keeps conversations itself.
var heldSites = map[string][]string{
	"socket": {"bare", "native", "expand", "to_chat", "to_anthropic", "box", "held_socket"},
	"thread": {"bare", "native", "expand", "to_chat", "box", "held_thread"},
}

// patience is how long a client waits for what may never come.
const patience = 30 * time.Second

// converse has conversations of one kind until ctx ends, each over one site and, in
// the same words, over the bare one.
func (s *soaking) converse(ctx context.Context, n int, kind string) {
	for c := 0; ctx.Err() == nil; c++ {
		sites := heldSites[kind]
		for _, site := range []string{sites[1+(n+c)%(len(sites)-1)], sites[0]} {
			who := fmt.Sprintf("%d %s %d", n, kind, c)
			if kind == "socket" {
				s.overSocket(ctx, site, who)
			} else {
				s.inThread(ctx, site, who)
			}
		}
	}
}

// socketTools are an agent's, without which nothing is ever expanded.
var socketTools = `"tools":[{"type":"function","name":"Read","description":` + js(longTool) +
	`,"parameters":{"type":"object"}}],`

// overSocket has a conversation in the WebSocket mode of the Responses API. A connection
// that is closed between two requests is no failure: clients dial anew and send all.
func (s *soaking) overSocket(ctx context.Context, site, who string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tell := func(end string) { s.tally.add("socket over "+site, end) }
	var ws *websocket.Conn
	defer func() {
		if ws != nil {
			_ = ws.CloseNow()
		}
	}()
	items, previous := socketHistory(6), ""
	for turn := 0; turn < 6; {
		if ws == nil {
			var err error
			if ws, err = dial(ctx, "ws://"+s.addr+"/"+site+"/v1/responses", who); err != nil {
				tell(ended(ctx.Err() != nil, "no connection"))
				return
			}
			previous = ""
		}
		asked := socketUser(fmt.Sprint("And then, ", turn, "?"))
		request := socketCreate("", "["+items+","+asked+"]")
		if previous != "" {
			request = socketCreate(previous, "["+asked+"]")
		}
		leaves := rand.IntN(20) == 0
		if leaves {
			defer time.AfterFunc(time.Duration(rand.IntN(50))*time.Millisecond, cancel).Stop()
		}
		last, heard, err := exchange(ctx, ws, strings.Replace(request, `"input":`, socketTools+`"input":`, 1))
		switch {
		case err != nil && !heard && previous != "" && ctx.Err() == nil: // closed since the last answer
			_ = ws.CloseNow()
			ws = nil
			continue
		case err != nil:
			tell(ended(leaves || ctx.Err() != nil, "cut"))
			return
		case previous != "" && last.Get("error.code").Str == "previous_response_not_found":
			previous = ""
			continue
		case last.Get("type").Str != "response.completed":
			tell("error event")
			return
		}
		tell("ok")
		turn++
		previous = socketPrevious(last)
		items += "," + asked
		for _, o := range last.Get("response.output").Array() {
			items += "," + o.Raw
		}
	}
}

func dial(ctx context.Context, url, who string) (*websocket.Conn, error) {
	ws, res, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		HTTPHeader: http.Header{
			"Openai-Beta": {"responses_websockets=2026-02-06"}, "Authorization": {"Bearer " + who[:1]},
			"Session-Id": {who},
		},
	})
	if err != nil {
		return nil, err
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	ws.SetReadLimit(-1)
	return ws, nil
}

// exchange sends a message and returns the event that its answer ends with, and whether
// anything came of it.
func exchange(ctx context.Context, ws *websocket.Conn, message string) (last gjson.Result, heard bool, err error) {
	if err := ws.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
		return last, false, err
	}
	for {
		_, b, err := ws.Read(ctx)
		if err != nil {
			return last, heard, err
		}
		heard, last = true, gjson.ParseBytes(b)
		switch last.Get("type").Str {
		case "response.completed", "response.incomplete", "response.failed", "error":
			return last, heard, nil
		}
	}
}

// inThread has a conversation in a thread of the Messages API. A thread that is not kept,
// or not known any more, is no failure: clients send all.
func (s *soaking) inThread(ctx context.Context, site, who string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	messages, previous, threads := threadHistory(6), "", true
	site = "thread over " + site
	for turn := 0; turn < 6 && ctx.Err() == nil; {
		asked := userText(fmt.Sprint("And then, ", turn, "?"))
		status, answer, err := s.postThread(ctx, client, site, who, threadRequest(messages, asked, previous, threads))
		d := wire.NewDecoder(wire.Anthropic, true)
		d.Feed([]byte(answer))
		code := gjson.Get(answer, "error.details.error_code").Str
		switch {
		case errors.Is(err, errLeft):
			s.tally.add(site, "left")
			return
		case err != nil:
			s.tally.add(site, ended(ctx.Err() != nil, "cut"))
			return
		case threads && code == "thread_unsupported_request":
			threads, previous = false, ""
			continue
		case previous != "" && strings.HasPrefix(code, "thread_"):
			previous = ""
			continue
		case status != http.StatusOK:
			s.tally.add(site, fmt.Sprint("status ", status, " ", code))
			return
		case d.Turn().Failed():
			s.tally.add(site, "error event")
			return
		case !d.Turn().Done:
			s.tally.add(site, "half an answer for a whole one")
			return
		}
		s.tally.add(site, "ok")
		if turn++; threads {
			previous = d.Turn().ID
		}
		messages += "," + asked + `,{"role":"assistant","content":[{"type":"text","text":` + js(d.Turn().Text) + `}]}`
	}
}

// threadRequest is a request of all messages and what is asked; if there is a previous
// answer, one that goes on from there; with threads, one that begins a thread.
func threadRequest(messages, asked, previous string, threads bool) string {
	const request = `{"model":"claude-opus-4-6","max_tokens":1000,"stream":true,`
	whole := `"system":"You are an agent.","tools":[{"name":"Read","description":` + js(longTool) +
		`,"input_schema":{"type":"object"}}],"messages":[` + messages + "," + asked + "]"
	switch {
	case !threads:
		return request + whole + "}"
	case previous == "":
		return request + whole + `,"thread":{"type":"create"}}`
	default:
		return request + `"messages":[` + asked + `],"thread":{"type":"continue","previous_message_id":"` + previous + `"}}`
	}
}

// errLeft says that the client did not wait for the answer.
var errLeft = errors.New("the client has left")

func (s *soaking) postThread(
	ctx context.Context, client *http.Client, site, who, body string,
) (status int, answer string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("no end"))
	defer cancel()
	leaves := rand.IntN(20) == 0
	if leaves {
		defer time.AfterFunc(time.Duration(rand.IntN(50))*time.Millisecond, cancel).Stop()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+"/"+
		strings.TrimPrefix(site, "thread over ")+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Anthropic-Beta", threadsBeta)
	r.Header.Set("X-Api-Key", "key of "+who[:1])
	r.Header.Set("X-Session-Id", who)
	res, err := client.Do(r)
	if err == nil {
		defer res.Body.Close()
		var b []byte
		b, err = io.ReadAll(res.Body)
		status, answer = res.StatusCode, string(b)
	}
	if err != nil && leaves {
		err = errLeft
	}
	return status, answer, err
}
