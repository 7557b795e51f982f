"""pandas, s3fs and pyarrow on `s3://`, as their users write it; AWS_ENDPOINT_URL says where that is."""

import json
import os

import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import s3fs

frame = pandas.DataFrame({"number": range(50_000), "text": [f"row {number} ü" for number in range(50_000)]})
files = s3fs.S3FileSystem()
files.mkdir("tables")
frame.to_parquet("s3://tables/t/x.parquet")
frame.to_csv("s3://tables/t/x.csv", index=False)
columns = pandas.read_parquet("s3://tables/t/x.parquet", columns=["text"])
same = [
    pandas.read_parquet("s3://tables/t/x.parquet").equals(frame),
    pandas.read_csv("s3://tables/t/x.csv").equals(frame),
    columns["text"].equals(frame["text"]) and columns.shape == (50_000, 1),
]

# fsspec: a multipart upload, a read in the middle, a copy, a move, removal.
with files.open("tables/big", "wb", block_size=5 << 20) as out:
    for number in range(12):
        out.write(bytes([number]) * (1 << 20))
with files.open("tables/big", "rb") as data:
    data.seek(7 << 20)
    middle = data.read(1)[0]
files.copy("tables/big", "tables/d/copy")
files.mv("tables/d/copy", "tables/d/moved")
files.rm("tables/t", recursive=True)
files.invalidate_cache()
left = sorted(files.find("tables"))

# pyarrow's own client, which is AWS's C++ SDK.
arrow = pyarrow.fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"])
parts = pyarrow.table({"x": [1, 2, 3], "part": ["a", "b", "b"]})
pyarrow.parquet.write_to_dataset(parts, "tables/arrow", partition_cols=["part"], filesystem=arrow)
read = pyarrow.dataset.dataset("tables/arrow", filesystem=arrow, partitioning="hive").to_table()
files.rm("tables", recursive=True)
files.invalidate_cache()
print("ANSWER", json.dumps({
    "same": same, "middle": middle, "left": left, "arrow": sorted(read["x"].to_pylist()), "buckets": files.ls(""),
}))  # fmt: skip
