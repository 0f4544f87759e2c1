"""Traces from files: a written trace reads back, and all errors are reported."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maar.sim.trace import Trace, TraceJob
from maar.sim.traces.curves import CLASSES
from maar.sim.traces.formats import FORMATS, read_trace, recognised
from maar.sim.traces.own import write_csv, write_json_lines
from maar.sim.traces.problems import TraceError
from maar.sim.traces.source import Source

MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,priority
0,4,0,1046811,resnet18,128,927475000,11174000,886,703,0
1,32,1456500,10,bert,4,2000,1456000,190,0.5,1
"""


def source(text: str, name: str = "t.csv") -> Source:
    return Source(name, text.encode())


def problems(text: str, format: str | None = None, name: str = "t.csv") -> list[str]:
    with pytest.raises(TraceError) as caught:
        read_trace(source(text, name), format)
    return caught.value.problems


# Write and read


@st.composite
def jobs(draw: st.DrawFn) -> TraceJob:
    workers, per_worker = draw(st.integers(1, 64)), draw(st.integers(0, 8))
    whole = st.integers(1, 2**31 - 1)
    seconds = st.floats(0, 1e12)
    sizes = draw(st.sets(st.integers(1, 999), max_size=4))
    points = tuple((n, draw(st.floats(1e-3, 1e6))) for n in sorted(sizes))
    model = draw(st.text(max_size=5) | st.sampled_from(sorted(CLASSES)))
    return TraceJob(
        name=draw(st.text(min_size=1, max_size=8)),
        submit=draw(st.floats(-1e12, 1e12)),
        duration=draw(seconds),
        gpus=workers * per_worker,
        workers=workers,
        gpus_per_worker=per_worker,
        min=draw(st.integers(1, workers)),
        max=draw(st.integers(workers, 200)),
        queue=draw(st.text(min_size=1, max_size=5)),
        priority=draw(st.integers(-(2**31) + 1, 2**31 - 1)),
        model=model,
        speedup=points or draw(st.sampled_from([(), CLASSES.get(model, ())])),
        iterations=draw(st.none() | seconds),
        iteration_time=draw(st.none() | seconds),
        epochs=draw(st.none() | whole),
        cpu=draw(st.none() | st.floats(0, 1e6)),
        memory=draw(st.none() | st.integers(0, 2**60)),
    )


TRACES = st.lists(jobs(), min_size=1, max_size=5, unique_by=lambda job: job.name).map(lambda made: Trace(tuple(made)))


@given(TRACES, st.text(max_size=20))
def test_safety_a_trace_in_csv_reads_back_as_itself(trace: Trace, note: str) -> None:
    written = write_csv(trace, note)
    assert trace.jobs == read_trace(source(written), "maar").jobs
    assert "maar" == recognised(source(written)).NAME


@given(TRACES)
def test_safety_a_trace_in_json_lines_reads_back_as_itself(trace: Trace) -> None:
    written = write_json_lines(trace)
    assert trace.jobs == read_trace(source(written), "maar").jobs
    assert "maar" == recognised(source(written)).NAME


@given(
    st.lists(
        st.tuples(st.floats(-1e9, 1e12), st.floats(0, 1e9), st.integers(1, 4096)),
        min_size=1,
        max_size=20,
    )
)
def test_safety_philly_keeps_numbers_and_order(rows: list[tuple[float, float, int]]) -> None:
    out = io.StringIO()
    csv.writer(out).writerows([("timestamp", "duration", "num_gpus"), *rows])
    read = read_trace(source(out.getvalue()), "philly").jobs
    assert rows == [(job.submit, job.duration, job.gpus) for job in read]
    assert [job.name for job in read] == sorted(job.name for job in read)


# Formats


def test_own_format_has_defaults() -> None:
    (job,) = read_trace(source("duration,name,submit\n10,a,5\n")).jobs
    assert TraceJob("a", 5.0, 10.0, 1) == job


def test_own_format_says_all_of_a_job() -> None:
    text = (
        "name,submit,duration,workers,gpus_per_worker,gang,max,queue,priority,model,speedup,epochs,cpu,memory\n"
        "a,5,10,4,2,2,8,research,-3,bert,1:1 4:3.5,90,8,1073741824\n"
    )
    (job,) = read_trace(source(text)).jobs
    expected = TraceJob(
        "a", 5.0, 10.0, 8, 4, 2, 2, 8, "research", -3, "bert", ((1, 1.0), (4, 3.5)), epochs=90, cpu=8.0, memory=2**30
    )
    assert expected == job
    fields = {"name": "a", "submit": 5, "duration": 10, "workers": 4, "gpus_per_worker": 2, "gang": 2, "max": 8}
    more = {"queue": "research", "priority": -3, "model": "bert", "speedup": {"4": 3.5, "1": 1}, "epochs": 90, "cpu": 8}
    line = json.dumps({**fields, **more, "memory": 2**30})
    assert (expected,) == read_trace(source(line)).jobs


def test_a_gang_is_the_minimum_unless_there_is_one() -> None:
    text = "name,submit,duration,workers,gang,min,max\na,0,1,4,3,,\nb,0,1,4,4,2,8\nc,0,1,4,,2,\nd,0,1,4,,,\n"
    assert [3, 2, 2, 4] == [job.min for job in read_trace(source(text)).jobs]
    lines = '{"name": "a", "submit": 0, "duration": 1, "workers": 4, "gang": 3, "min": 2}\n'
    assert [2] == [job.min for job in read_trace(source(lines)).jobs]


def test_a_model_class_has_a_speed_up() -> None:
    text = "name,submit,duration,model,speedup\na,0,1,scales-badly,\nb,0,1,scales-badly,linear\nc,0,1,other,\n"
    assert [CLASSES["scales-badly"], (), ()] == [job.speedup for job in read_trace(source(text)).jobs]


def test_muri_is_in_milliseconds_and_in_order() -> None:
    first, second = read_trace(source(MURI)).jobs
    assert ("0", 0.0, 927475.0, 4, 1046811.0, 0.886) == (
        *(first.name, first.submit, first.duration),
        *(first.gpus, first.iterations, first.iteration_time),
    )
    assert (1456.5, 32, 32, 32, "bert", 1) == (
        *(second.submit, second.workers, second.min),
        *(second.max, second.model, second.priority),
    )


def test_numbers_as_names_keep_their_order_as_text() -> None:
    rows = "".join(f"{i},1,0,1,bert,4,2000,0,190,0.5,1\n" for i in range(11))
    names = [job.name for job in read_trace(source(MURI.splitlines()[0] + "\n" + rows)).jobs]
    assert ["00", "01", "10"] == [names[0], names[1], names[10]]


@pytest.mark.parametrize(
    "text",
    [
        "timestamp,duration,num_gpus\n60,120,4\n",
        "job_id, Submit_Time, run_time, gpu_num, user\nx,60,120,4,somebody\n",
        "# from somewhere\r\n\r\nsubmitted_time,duration,gpus,state\r\n60,120,4.0,Pass\r\n",
        "\ufeffarrival_time,duration,num_gpu\n1970-01-01 00:01:00,120,4\n",
        "timestamp,duration,num_gpus\n1970-01-01T01:01:00+01:00,120,4\n",
    ],
)
def test_the_philly_family_is_recognised(text: str) -> None:
    assert "philly" == recognised(source(text)).NAME
    (job,) = read_trace(source(text)).jobs
    assert (60.0, 120.0, 4, 4, 4, 4) == (job.submit, job.duration, job.gpus, job.workers, job.min, job.max)


def test_philly_takes_names_and_queues_where_there_are_some() -> None:
    (job,) = read_trace(source("job_id,vc,timestamp,duration,num_gpus\napp_7,vision,0,1,2\n")).jobs
    assert ("app_7", "vision") == (job.name, job.queue)


def test_each_format_is_recognised() -> None:
    texts = {
        "maar": '{"name": "a"}\n',
        "muri": MURI,
        "philly": "timestamp,duration,num_gpus\n",
        "pollux": "name,time,application,num_replicas,batch_size\n",
    }
    assert FORMATS.keys() - {"recorded"} == texts.keys()
    assert {name: name for name in texts} == {name: recognised(source(text)).NAME for name, text in texts.items()}


# Errors


def test_a_bad_cell_is_named_by_line_and_column() -> None:
    text = "timestamp,duration,num_gpus\n0,1,1\n\n0,1,four\n0,-1,1\nsoon,1,0\n0,1\n"
    assert [
        "t.csv:4: num_gpus: expected a whole number of at least 1, got `four`",
        "t.csv:5: duration: expected a number of at least 0, got `-1`",
        "t.csv:6: num_gpus: expected a whole number of at least 1, got `0`",
        "t.csv:6: timestamp: expected a number, got `soon`",
        "t.csv:7: expected 3 columns, got 2",
    ] == problems(text)


def test_a_column_is_named_as_the_file_names_it() -> None:
    text = "Submitted_Time,jobid, run_time,gpus\n0,a,long,1\n0,a,1,none\n0,a,1,1\n"
    assert [
        "t.csv:2: run_time: expected a number of at least 0, got `long`",
        "t.csv:3: gpus: expected a whole number of at least 1, got `none`",
        "t.csv:3: jobid: expected a unique name, got `a`, which is also in line 2",
        "t.csv:4: jobid: expected a unique name, got `a`, which is also in line 2",
    ] == problems(text)
    header = "job_id,num_gpu,submit_time,iterations,model_name,duration,iteration_time"
    assert ["t.csv:3: job_id: expected a unique name, got `7`, which is also in line 2"] == problems(
        f"{header}\n7,1,0,1,bert,1,1\n7,1,0,1,bert,1,1\n"
    )


def test_lines_are_counted_as_an_editor_counts_them() -> None:
    text = '# note\n# note\nname,submit,duration\n"two\nlines",0,1\nb,0,never\n'
    assert ["t.csv:6: duration: expected a number of at least 0, got `never`"] == problems(text)


@pytest.mark.parametrize("bad", ["nan", "inf", "1e400", "1_000", "", "0x10", "True"])
def test_what_is_no_number_is_none(bad: str) -> None:
    shown = f"`{bad}`" if bad else "nothing"
    assert [f"t.csv:2: duration: expected a number of at least 0, got {shown}"] == problems(
        f"name,submit,duration\na,0,{bad}\n"
    )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("1.5,1,1,", "workers: expected a whole number of at least 1, got `1.5`"),
        ("99999999999,1,99999999999,", "workers: expected a whole number of at least 1 and at most 2147483647, got"),
        ("2,3,4,", "min: expected at most `workers` (2), got `3`"),
        ("2,1,1,", "max: expected at least `workers` (2), got `1`"),
        ("1,1,1,2x", "speedup: expected points such as `1:1 2:1.9 4:3.5` (workers:speed-up) or `linear`, got"),
        ("1,1,1,1:1 1:2", "speedup: expected points"),
        ("1,1,1,0:1", "speedup: expected points"),
        ("1,1,1,1:nan", "speedup: expected points"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(cells: str, expected: str) -> None:
    found = problems(f"name,submit,duration,workers,min,max,speedup\na,0,1,{cells}\n")
    assert found[0].startswith(f"t.csv:2: {expected}"), found


def test_a_name_is_there_once() -> None:
    assert ["t.csv:3: name: expected a unique name, got `a`, which is also in line 2"] == problems(
        "name,submit,duration\na,0,1\na,0,1\n"
    )


def test_an_unknown_column_gets_a_suggestion() -> None:
    (found,) = problems("name,submit,duration,gpu_per_worker\na,0,1,1\n")
    assert found.startswith("t.csv:1: unknown column `gpu_per_worker`; did you mean `gpus_per_worker`? known: cpu, ")
    (found,) = problems('{"name": "a", "submit": 0, "duration": 1, "size": 3}\n')
    assert found.startswith("t.csv:1: unknown column `size`; known: cpu, ")


def test_a_column_is_there_once() -> None:
    text = "name,submit,duration,min,min\na,0,1,1,1\n"
    assert ["t.csv:1: expected column `min` once, got it 2 times"] == problems(text)


def test_json_lines_that_are_none_are_named() -> None:
    found = problems(
        '{"name": "a", "submit": 0, "duration": 1}\n[1]\n{"name"\n{"name": true, "submit": 0, "duration": 1}'
    )
    assert "t.csv:2: expected a JSON object, got `[1]`" == found[0]
    assert found[1].startswith('t.csv:3: expected a JSON object, got `{"name"` (')
    assert "t.csv:4: name: expected a text, got `True`" == found[2]
    assert 3 == len(found)


def test_columns_that_are_missing_are_named_once() -> None:
    assert ["t.csv:1: missing columns: num_gpus; got timestamp, duration"] == problems(
        "timestamp,duration\n1,2\n1,2\n", "philly"
    )


def test_all_problems_are_known_and_twenty_are_said() -> None:
    text = "timestamp,duration,num_gpus\n" + "0,1,x\n" * 25
    with pytest.raises(TraceError) as caught:
        read_trace(source(text))
    assert 25 == len(caught.value.problems)
    lines = str(caught.value).splitlines()
    assert (21, "and 5 more") == (len(lines), lines[-1])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "t.csv: contains no jobs"),
        ("timestamp,duration,num_gpus\n", "t.csv: contains no jobs"),
        (
            "what,is,this\n1,2,3\n",
            "t.csv: unknown format, first line: `what,is,this`; known formats: maar, muri, philly, pollux, recorded",
        ),
        ('name,submit,duration\n"a,0,1\n', "t.csv:2: expected cells separated by commas: unexpected end of data"),
    ],
)
def test_a_file_that_is_no_trace_is_refused(text: str, expected: str) -> None:
    assert [expected] == problems(text)


def test_bytes_that_are_no_text_are_named() -> None:
    with pytest.raises(TraceError, match=r"^t\.csv:2: expected text in UTF-8, got byte 0xff$"):
        read_trace(Source("t.csv", b"name,submit,duration\na\xff,0,1\n"))


def test_an_unknown_format_gets_a_suggestion() -> None:
    assert ["unknown format `phily`; did you mean `philly`? known: maar, muri, philly, pollux, recorded"] == problems(
        "", "phily"
    )


def test_a_file_that_is_no_recording_is_none() -> None:
    assert ["t.csv: expected a recording by `maar run --record`, got another file"] == problems("x", "recorded")
