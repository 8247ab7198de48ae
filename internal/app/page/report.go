// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/app/audit"
)

// report is the data of a page in one file.
type report struct {
	Period *audit.Period `json:"period"`
	// CSV has the files behind the buttons, by dimension.
	CSV map[string]string `json:"csv"`
}

// WriteReport writes the page with the sums of a period in it. The file loads nothing, and needs no server.
func WriteReport(w io.Writer, p *audit.Period) error {
	r := report{Period: p, CSV: map[string]string{}}
	for _, b := range p.Dimensions {
		var text bytes.Buffer
		if err := b.WriteCSV(&text); err != nil {
			return err
		}
		r.CSV[b.Key] = text.String()
	}
	data, err := json.Marshal(r) // escapes <, > and &
	if err != nil {
		return err
	}
	js, css := read(script), read(style)
	page := footed(read("page.html"))
	for _, part := range [][2]string{
		{`<link rel="stylesheet" href="page.css" crossorigin>`, "<style>" + string(css) + "</style>"},
		{`<script type="module" src="page.js"></script>`, `<script type="application/json" id="data">` + string(data) +
			`</script><script type="module">` + string(js) + "</script>"},
		{`<meta charset="utf-8">`, `<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="` + fmt.Sprintf("default-src 'none'; img-src data:; script-src '%s'; "+
			"style-src '%s'; base-uri 'none'; form-action 'none'", hash(js), hash(css)) + `">`},
	} {
		page = bytes.Replace(page, []byte(part[0]), []byte(part[1]), 1)
	}
	_, err = w.Write(page)
	return err
}

// hash is the hash of an inline script or style in a Content-Security-Policy.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
