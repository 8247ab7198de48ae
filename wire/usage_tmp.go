package wire

import "github.com/tidwall/gjson"

func (a *answer) responsesUsage(u gjson.Result) {
	prompt, output := answerCount(u.Get("input_tokens")), answerCount(u.Get("output_tokens"))
	if prompt+output == 0 {
		return
	}
	read := min(answerCount(u.Get("input_tokens_details.cached_tokens")), prompt)
	write := min(answerCount(u.Get("input_tokens_details.cache_write_tokens")), prompt-read)
	hour := min(answerCount(u.Get("input_tokens_details.cache_write_1h_tokens")), write)
	a.turn.Usage = Usage{Uncached: prompt - read - write, Write5m: write - hour, Write1h: hour, Read: read, Output: output, Reported: true}
}
